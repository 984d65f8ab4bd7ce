// The registers of a frame on aarch64. Sits in profile/unwind.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace strata {

struct FrameRegisters {
  uintptr_t pc = 0;
  uintptr_t sp = 0;
  uintptr_t bp = 0;
  uintptr_t lr = 0;     // known in the innermost frame only, and where a signal came
  uintptr_t place = 0;  // on the stack, of pc: 0 if not there
};

// The registers here; to be inlined into the function that the walk begins with.
STRATA_ALWAYS_INLINE FrameRegisters CurrentRegisters() {
  FrameRegisters r;
  asm volatile(
      "adr %0, .\n\t"
      "mov %1, sp\n\t"
      "mov %2, x29\n\t"
      "mov %3, x30"
      : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.bp), "=&r"(r.lr));
  return r;
}

// Where the caller's stack begins a frame pointer does not say here: those of the function itself.
STRATA_ALWAYS_INLINE FrameRegisters RegistersOfCall() { return CurrentRegisters(); }
inline constexpr bool kKnowsCall = false;

}  // namespace strata
