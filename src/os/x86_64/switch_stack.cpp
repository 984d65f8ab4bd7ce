// __morestack of os/side_stack.cpp for x86-64: the frame is rbp's; calls and returns match, as a
// shadow stack asks. Sits in os.
asm(R"(
  .pushsection .text.__morestack, "ax", @progbits
  .globl __morestack
  .hidden __morestack
  .type __morestack, @function
  .p2align 4
__morestack:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdx, %rsp
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size __morestack, . - __morestack
  .popsection
)");
