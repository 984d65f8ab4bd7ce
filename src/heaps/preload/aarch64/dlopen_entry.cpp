// dlopen and dlmopen (heaps/preload/deep_bind.cpp) for aarch64. Sits in heaps.
asm(R"(
  .pushsection .text.dlopen, "ax", %progbits
  .globl dlopen
  .type dlopen, %function
  .balign 16
dlopen:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  str x0, [sp, #16]
  mov w0, w1
  bl strata_load
  mov x16, x0
  ldr x0, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  br x16
  .cfi_endproc
  .size dlopen, . - dlopen

  .globl dlmopen
  .type dlmopen, %function
  .balign 16
dlmopen:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  stp x0, x1, [sp, #16]
  mov w1, w2
  bl strata_load_into
  mov x16, x0
  mov w2, w1
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  br x16
  .cfi_endproc
  .size dlmopen, . - dlmopen
  .popsection
)");
