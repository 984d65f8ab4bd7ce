// dlopen and dlmopen (heaps/preload/deep_bind.cpp) for x86-64. Sits in heaps.
asm(R"(
  .pushsection .text.dlopen, "ax", @progbits
  .globl dlopen
  .type dlopen, @function
  .balign 16
dlopen:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  movl %esi, %edi
  call strata_load
  movl %edx, %esi
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmpq *%rax
  .cfi_endproc
  .size dlopen, . - dlopen

  .globl dlmopen
  .type dlmopen, @function
  .balign 16
dlmopen:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movl %edx, %esi
  call strata_load_into
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmpq *%rax
  .cfi_endproc
  .size dlmopen, . - dlmopen
  .popsection
)");
