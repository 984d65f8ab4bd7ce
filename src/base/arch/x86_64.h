// x86-64, as base/arch.h asks.
#pragma once

#include <emmintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

// The registers of a call's first three arguments.
#define STRATA_FIRST_ARGUMENT "rdi"
#define STRATA_SECOND_ARGUMENT "rsi"
#define STRATA_THIRD_ARGUMENT "rdx"

namespace strata::arch {

// Of user addresses; with LA57 only programs that ask for them get higher ones.
inline constexpr unsigned kAddressBits = 47;
inline constexpr uint16_t kElfMachine = 62;  // EM_X86_64

// In a loop that waits for another thread.
STRATA_ALWAYS_INLINE void Relax() { __builtin_ia32_pause(); }

// Where the stack ends in the function that this is inlined into. __builtin_frame_address would
// cost that its frame, and with it the calls that take its place on the stack.
STRATA_ALWAYS_INLINE uintptr_t StackPointer() {
  uintptr_t sp;
  asm volatile("mov %%rsp, %0" : "=r"(sp));
  return sp;
}

// Reads a byte at p, and lets nothing that follows begin before it is there.
inline void ReadAndAwait(const void* p) {
  char byte;
  asm volatile("movb (%1), %0\n\tlfence" : "=q"(byte) : "r"(p) : "memory");
}

// Whether offset >= end; gcc would load the atomic into a register first.
STRATA_ALWAYS_INLINE bool IsPastEnd(size_t offset, const std::atomic<size_t>& end) {
  bool past;
  asm("cmp %[end], %[offset]" : "=@ccae"(past) : [end] "m"(end), [offset] "r"(offset));
  return past;
}

// Takes `by` from the word in one instruction, so that a signal handler sees it before or after.
// Whether nothing is left.
STRATA_ALWAYS_INLINE bool TakeFrom(size_t& word, size_t by) {
  bool past;
  asm volatile("sub %[by], %[word]" : "=@ccle"(past), [word] "+m"(word) : [by] "r"(by));
  return past;
}

// Without libm, rounded as the processor is set to.
inline int64_t Rounded(double x) { return _mm_cvtsd_si64(_mm_set_sd(x)); }
inline double SquareRoot(double x) { return _mm_cvtsd_f64(_mm_sqrt_pd(_mm_set1_pd(x))); }

// Valgrind's client request: a no-op on a real CPU that leaves 0.
inline uint64_t AskValgrind(const uint64_t (&request)[6]) {
  uint64_t result = 0;
  asm volatile(
      "rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, "
      "%%rbx"
      : "+d"(result)
      : "a"(request)
      : "cc", "memory");
  return result;
}

}  // namespace strata::arch
