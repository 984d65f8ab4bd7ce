// Where the program called malloc, as far as the library's outermost function can tell for nothing:
// where it returns to, and how high the stack is. Sits in malloc.
#pragma once

#include <cstdint>

#include "base/size_class.h"
#include "lifetime/site.h"

namespace strata {

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
