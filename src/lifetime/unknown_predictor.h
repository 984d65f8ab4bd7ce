// A predictor says for how long an object that is about to be allocated will live:
//
//   LifetimeClass ClassOf(size_t bytes, uintptr_t call_site)
//
// where call_site tells apart from where the program asks, by whatever it is made of. One that
// learns may also have
//
//   void Allocated(void* p, size_t bytes, uintptr_t call_site)   what it was asked about lies there
//   void Freed(void* p)                                          is about to be freed
//   void VisitLocks(f)                                           as a heap's, for forks
//
// This is the one that knows nothing. Sits in lifetime.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"

namespace strata {

struct UnknownPredictor {
  static constexpr LifetimeClass ClassOf(size_t, uintptr_t) { return LifetimeClass::kUnknown; }
};

}  // namespace strata
