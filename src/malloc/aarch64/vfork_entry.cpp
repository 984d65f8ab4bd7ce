// vfork (malloc/vfork.cpp) for aarch64. The return address is kept in a register, since the child
// uses the stack from here up: the kernel leaves all but x0 as they are. Weak, so that a static
// link may find libc's as well. Sits in malloc.
asm(R"(
  .pushsection .text
  .weak vfork
  .weak __vfork
  .type vfork, %function
  .type __vfork, %function
  .p2align 4
vfork:
__vfork:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  bl strata_before_vfork
  ldp x29, x30, [sp], #16
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  cbnz x0, 1f
  mov x9, x1
  mov x0, #0x4111             // CLONE_VM | CLONE_VFORK | SIGCHLD
  mov x1, #0
  mov x2, #0
  mov x3, #0
  mov x4, #0
  mov x8, #220                // clone
  svc #0
  cbz x0, 2f
  mov x1, x9
  b strata_after_vfork
1:
  mov x16, x0
  br x16
2:
  ret
  .cfi_endproc
  .size vfork, .-vfork
  .size __vfork, .-__vfork
  .popsection
)");
