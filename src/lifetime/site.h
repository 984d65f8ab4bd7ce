// What names a place that allocates: where the call returns to, how high the stack is there, and
// the size class (M. Maas et al., "Learning-based memory allocation for C++ server workloads",
// ASPLOS 2020, section 6). Where that does not tell call paths apart, the frames further out are
// added one by one. Sits in lifetime.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "base/size_class.h"

namespace strata {

// 0 names nothing.
enum class SiteKey : uint64_t { kNone = 0 };

constexpr uint64_t Raw(SiteKey key) { return static_cast<uint64_t>(key); }

// Of the stack's height the bits within a page count: they are the same in all threads of a pool,
// whose stacks begin at the same place in a page. `frame` is any address that moves with the stack
// pointer, by steps of 16. Below 2^7, `c`; below 2^48, the address: so nothing overlaps but what is
// the same for all, and a multiplication by an odd number can be undone. Two places have two keys.
constexpr SiteKey KeyOf(uintptr_t caller, uintptr_t frame, SizeClass c) {
  const uint64_t packed =
      caller ^ (uint64_t{frame} << 52) ^ (uint64_t{Raw(c)} << arch::kAddressBits);
  return static_cast<SiteKey>(packed * 0x9e3779b97f4a7c15u);
}

// The same place, called from `caller` in the end.
constexpr SiteKey Deepened(SiteKey key, uintptr_t caller) {
  const uint64_t h = (Raw(key) ^ (Raw(key) >> 29) ^ caller) * 0xbf58476d1ce4e5b9u;
  return static_cast<SiteKey>(h ^ (h >> 32));
}

}  // namespace strata
