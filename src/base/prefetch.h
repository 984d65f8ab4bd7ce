// Asks the processor for a line that will be written to soon. gcc takes a function that does
// nothing but prefetch for one without effect and drops the calls of it; the empty statement keeps
// them. Sits in base.
#pragma once

#include <cstddef>

#include "base/check.h"

namespace strata {

inline constexpr size_t kCacheLine = 64;

STRATA_ALWAYS_INLINE void PrefetchToWrite(const void* line) {
  __builtin_prefetch(line, 1);
  asm volatile("");
}

}  // namespace strata
