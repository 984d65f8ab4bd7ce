// Where the program called malloc, as far as the library's outermost function can tell for nothing:
// where it returns to, and how high the stack is. Sits in malloc.
#pragma once

#include <cstdint>

#include "base/size_class.h"
#include "base/units.h"
#include "lifetime/site.h"

namespace strata {

// Where the stack ends in the function that this is inlined into. __builtin_frame_address would
// cost that its frame, and with it the calls that take its place on the stack.
STRATA_ALWAYS_INLINE uintptr_t StackPointer() {
  uintptr_t sp;
  asm volatile("mov %%rsp, %0" : "=r"(sp));
  return sp;
}

class AllocationSite {
 public:
  AllocationSite() = default;  // not known
  // `frame`: in one function of the library for all calls.
  AllocationSite(const void* caller, uintptr_t frame)
      : caller_(reinterpret_cast<uintptr_t>(caller)), frame_(frame) {}
  bool is_known() const { return caller_ != 0; }
  SiteKey KeyOf(SizeClass c) const { return strata::KeyOf(caller_, frame_, c); }
  uintptr_t frame() const { return frame_; }

 private:
  uintptr_t caller_ = 0, frame_ = 0;
};

}  // namespace strata
