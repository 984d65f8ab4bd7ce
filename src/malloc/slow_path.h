// What slow_path.cpp, place_path.cpp and resize.cpp share. Sits in malloc.
#pragma once

#include <errno.h>

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/placement.h"
#include "cache/freed_mark.h"
#include "malloc/background.h"
#include "malloc/bad_free.h"
#include "malloc/limits.h"
#include "malloc/price.h"
#include "malloc/runtime.h"
#include "span/large_blocks.h"

namespace strata {

// Larger requests can't be told from a negative number by the program's pointer arithmetic.
inline constexpr size_t kMaxRequest = PTRDIFF_MAX;

// What a request that may have made the heap grow does last, with no lock held, before the program
// touches what it got. May change errno.
STRATA_ALWAYS_INLINE void TendAfterGrowth() {
  TendBackground();
  RelieveMemoryIfNeeded();
  PayForGrowthIfDue();
}

inline void* OutOfMemory() {
  errno = ENOMEM;
  return nullptr;
}

// Of two threads at once one is perhaps not counted: what an average needs.
inline void NoteRequested(Runtime& r, SizeClass c, size_t size) {
  auto& sample = r.requested[Raw(c)];
  sample.bytes.store(sample.bytes.load(std::memory_order_relaxed) + size,
                     std::memory_order_relaxed);
  sample.count.store(sample.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Before malloc fails, what lies free in the caches of other classes and CPUs goes to where any
// request can use it.
void EmptyCaches(Runtime& r);

// Empties the caches before it fails.
LargeBlock TakeLarge(Runtime& r, size_t size, size_t align, Placement placement = {});

// What blocks with something around them are made of, and its usable bytes; counts. Null: no
// memory.
void* AllocateRaw(size_t size, size_t align, size_t* usable);
void FreeRaw(void* p);

// Of an object with the mark of those that are free, whether it is. One on its way from one cache
// to another by another thread is not found; no other is found that is not free.
bool IsFreed(Runtime& r, const void* p, SizeClass c);

// Where few are marked, the newest stands for them.
inline bool MayBeFreed(const Runtime& r, const void* p, SizeClass c) {
  return HasMark(p, r.freed_mark) ||
         (STRATA_UNLIKELY(r.front().cpu.ops().looks() != MarkLooks::kEach) &&
          r.front().cpu.IsNewest(c, p));
}

// Of an object: reports one that the program has freed.
inline bool ExpectNotFreed(Runtime& r, void* p, SizeClass c) {
  if (STRATA_LIKELY(!MayBeFreed(r, p, c)) || !IsFreed(r, p, c)) return true;
  HandleBadFree(BadFree::kDouble, p);
  return false;
}

// Of any pointer: reports one to a span at which no object begins, or one that is free for sure.
// What lies in no span is left to others.
bool ExpectIfSmall(void* p);

}  // namespace strata
