// __morestack of os/side_stack.cpp for aarch64: the frame is x29's. Sits in os.
asm(R"(
  .pushsection .text.__morestack, "ax", %progbits
  .globl __morestack
  .hidden __morestack
  .type __morestack, %function
  .p2align 4
__morestack:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  mov x29, sp
  .cfi_def_cfa_register 29
  mov sp, x2
  mov x9, x0
  mov x0, x1
  blr x9
  mov sp, x29
  .cfi_def_cfa_register 31
  ldp x29, x30, [sp], #16
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  ret
  .cfi_endproc
  .size __morestack, . - __morestack
  .popsection
)");
