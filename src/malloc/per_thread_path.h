// What malloc and free are for a thread that has a cache of its own because rseq cannot be used:
// the first thing that the slow path tries, so that a hit is some twenty instructions more than one
// on a slab. Sits in malloc, between fast_path.h and slow_path.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/freed_mark.h"
#include "cache/thread_cache.h"
#include "malloc/runtime.h"
#include "span/object_start.h"
#include "span/size_classes.h"

namespace strata {

// Null when the thread has no cache or nothing of that size in it, and when a sample or a look at
// the sampler's rate is due: nothing is counted then.
STRATA_ALWAYS_INLINE void* PopPerThread(size_t size) {
  ThreadState& t = t_state;
  ThreadCache* cache = t.cache;
  if (STRATA_LIKELY(cache == nullptr) || t.scope != nullptr || size > kMaxClassSize) return nullptr;
  if (!t.countdown.MaySpend(size, TheRuntime().sampler.rate())) return nullptr;
  void* p = cache->Pop(ClassOfSize(size));
  if (STRATA_UNLIKELY(p == nullptr)) return nullptr;
  t.countdown.SpendBeyond(size);
  WipeMark(p);
  return p;
}

// False, with nothing done, for whatever is not simple: p may be anything in the heap.
STRATA_ALWAYS_INLINE bool PushPerThread(void* p) {
  ThreadCache* cache = t_state.cache;
  if (STRATA_LIKELY(cache == nullptr)) return false;
  const Runtime& r = TheRuntime();
  const auto address = reinterpret_cast<uintptr_t>(p);
  const PageId page((address - r.kernel.base()) >> kPageShift);
  const SizeClass c = r.heap.page_map().EntryOf(page);
  if (Raw(c) == 0 || Raw(c) >= kNumClasses) return false;
  if (!IsObjectStart(r.heap.page_map().entries()[page.raw()], c, address) ||
      !cache->HasRoom(c, r.thread_cache_limit.load(std::memory_order_relaxed)) ||
      HasMark(p, r.freed_mark) || !cache->Push(c, p))
    return false;
  SetMark(p, r.freed_mark);
  return true;
}

}  // namespace strata
