// Where the program called malloc, as far as the library's outermost function can tell for nothing:
// where it returns to, and how high the stack is. Sits in malloc.
#pragma once

#include <cstdint>

#include "base/size_class.h"
#include "lifetime/site.h"

namespace strata {

class AllocationSite {
 public:
  // `frame`: of one function of the library for all calls.
  AllocationSite(const void* caller, const void* frame)
      : caller_(reinterpret_cast<uintptr_t>(caller)), frame_(reinterpret_cast<uintptr_t>(frame)) {}
  SiteKey KeyOf(SizeClass c) const { return strata::KeyOf(caller_, frame_, c); }
  uintptr_t frame() const { return frame_; }

 private:
  uintptr_t caller_, frame_;
};

}  // namespace strata
