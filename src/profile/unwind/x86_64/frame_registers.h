// The registers of a frame on x86-64. Sits in profile/unwind.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace strata {

struct FrameRegisters {
  uintptr_t pc = 0;
  uintptr_t sp = 0;
  uintptr_t bp = 0;
};

// The registers here; to be inlined into the function that the walk begins with.
STRATA_ALWAYS_INLINE FrameRegisters CurrentRegisters() {
  FrameRegisters r;
  asm volatile(
      "lea 0(%%rip), %0\n\t"
      "mov %%rsp, %1\n\t"
      "mov %%rbp, %2"
      : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.bp));
  return r;
}

// Those of the caller of the function that this is inlined into, which gets a frame pointer by it:
// pc is where that function returns to.
STRATA_ALWAYS_INLINE FrameRegisters RegistersOfCall() {
  const auto* frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
  return {frame[1], reinterpret_cast<uintptr_t>(frame + 2), frame[0]};
}
inline constexpr bool kKnowsCall = true;

}  // namespace strata
