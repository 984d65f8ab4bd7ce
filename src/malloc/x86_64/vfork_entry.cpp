// vfork (malloc/vfork.cpp) for x86-64. The return address is kept in a register, since the child
// uses the stack from here up. Weak, so that a static link may find libc's as well. Sits in malloc.
asm(R"(
  .pushsection .text
  .weak vfork
  .weak __vfork
  .type vfork, @function
  .type __vfork, @function
  .p2align 4
vfork:
__vfork:
  .cfi_startproc
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call strata_before_vfork
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  test %rax, %rax
  jnz 1f
  mov %rdx, %rsi
  pop %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  mov $58, %eax
  syscall
  push %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rip, 0
  test %rax, %rax
  jz 2f
  mov %rax, %rdi
  jmp strata_after_vfork
1:
  jmp *%rax
2:
  ret
  .cfi_endproc
  .size vfork, .-vfork
  .size __vfork, .-__vfork
  .popsection
)");
