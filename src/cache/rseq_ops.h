// The Ops of a process's per-CPU caches (cache/cpu_cache.h): restartable sequences on the calling
// thread. Sits in cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/freed_mark.h"
#include "cache/rseq_sequences.h"
#include "os/rseq.h"
#include "span/object_start.h"

namespace strata {

struct RseqOps {
  RseqSlabs where{};
  void* slabs = nullptr;
  RseqInfo info{};

  void* Pop(SizeClass c) const { return RseqPop(where, slabs, c); }
  // Of an object that is known to be one, and not to be free.
  PushResult Push(SizeClass c, void* object) const {
    const auto at = reinterpret_cast<uintptr_t>(object);
    const PageEntry entry = EntryFor(c, at, at & ~(kPageSize - 1));
    PushResult result = PushResult::kSuspect;
    for (int i = 0; i < 3 && result == PushResult::kSuspect; ++i) {
      WipeMark(object);
      result = PushResult::kPushed;
      RseqPush(where, slabs, &entry, 0, object, [&](PushResult why) { result = why; });
    }
    return result;
  }
  uint32_t looks() const { return __atomic_load_n(&where.looks, __ATOMIC_RELAXED); }
  void SetLooks(uint32_t looks) { __atomic_store_n(&where.looks, looks, __ATOMIC_RELAXED); }
  // For one that goes into a cache by another way.
  void Mark(void* object) const { SetMark(object, where.mark); }
  size_t PopBatch(SizeClass c, void** out, size_t n) const {
    return RseqPopBatch(where, slabs, c, out, n);
  }
  size_t PushBatch(SizeClass c, void* const* objects, size_t n) const {
    return RseqPushBatch(where, slabs, c, objects, n);
  }
  size_t vcpu() const { return CurrentVcpu(info); }
  bool IsOn(size_t vcpu) const { return RseqIsOn(where, slabs, vcpu); }
  bool MayFence() const { return MayFenceRseq(); }
  bool Fence() const { return FenceRseq(); }
};

}  // namespace strata
