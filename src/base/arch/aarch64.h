// aarch64, as base/arch.h asks.
#pragma once

#include <arm_neon.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

// The registers of a call's first three arguments.
#define STRATA_FIRST_ARGUMENT "x0"
#define STRATA_SECOND_ARGUMENT "x1"
#define STRATA_THIRD_ARGUMENT "x2"

namespace strata::arch {

// Of user addresses; with LVA only programs that ask for them get higher ones.
inline constexpr unsigned kAddressBits = 48;
inline constexpr uint16_t kElfMachine = 183;  // EM_AARCH64

// In a loop that waits for another thread. `yield` does nothing on most cores; `isb` waits about as
// long as a pause of x86-64 does.
STRATA_ALWAYS_INLINE void Relax() { asm volatile("isb" ::: "memory"); }

// Where the stack ends in the function that this is inlined into.
STRATA_ALWAYS_INLINE uintptr_t StackPointer() {
  uintptr_t sp;
  asm volatile("mov %0, sp" : "=r"(sp));
  return sp;
}

// Reads a byte at p, and lets nothing that follows begin before it is there.
inline void ReadAndAwait(const void* p) {
  uint32_t byte;
  asm volatile("ldrb %w0, [%1]\n\tdsb ld" : "=r"(byte) : "r"(p) : "memory");
}

// Whether offset >= end.
STRATA_ALWAYS_INLINE bool IsPastEnd(size_t offset, const std::atomic<size_t>& end) {
  return offset >= end.load(std::memory_order_relaxed);
}

// Takes `by` from the word; a signal handler sees it before or after, for what interrupts the pair
// ends the reservation. Whether nothing is left.
STRATA_ALWAYS_INLINE bool TakeFrom(size_t& word, size_t by) {
  int64_t left;
  uint32_t refused;
  asm volatile(
      "1: ldxr %[left], %[word]\n\t"
      "sub %[left], %[left], %[by]\n\t"
      "stxr %w[refused], %[left], %[word]\n\t"
      "cbnz %w[refused], 1b"
      : [left] "=&r"(left), [refused] "=&r"(refused), [word] "+Q"(word)
      : [by] "r"(by));
  return left <= 0;
}

// Without libm, to the nearest, ties to even.
inline int64_t Rounded(double x) { return vcvtnd_s64_f64(x); }
inline double SquareRoot(double x) { return vget_lane_f64(vsqrt_f64(vdup_n_f64(x)), 0); }

// Valgrind's client request: a no-op on a real CPU that leaves 0.
inline uint64_t AskValgrind(const uint64_t (&request)[6]) {
  register const uint64_t* x4 asm("x4") = request;
  register uint64_t x3 asm("x3") = 0;
  asm volatile(
      "ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
      "orr x10, x10, x10"
      : "+r"(x3)
      : "r"(x4)
      : "x12", "cc", "memory");
  return x3;
}

}  // namespace strata::arch
