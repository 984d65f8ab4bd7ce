// How often each class of a vCPU missed, and which missed lately. Sits in cache; part of a vCPU's
// record (cache/vcpu.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "span/size_classes.h"

namespace strata {

// Written by the vCPU's own threads; two that race may lose a step, which matters to statistics and
// the division of memory only.
class MissCounts {
 public:
  // Both: whether the class's last miss was of the same kind.
  bool NoteAlloc(SizeClass c) { return Note(alloc_[Raw(c)], c, Kind::kAlloc); }
  bool NoteFree(SizeClass c) { return Note(free_[Raw(c)], c, Kind::kFree); }
  // Since the last call. The clock hand of cache/room_policy.h spares such a class.
  bool TakeLately(SizeClass c) {
    return lately_[Raw(c)].exchange(false, std::memory_order_relaxed);
  }

  uint64_t allocs(SizeClass c) const { return alloc_[Raw(c)].load(std::memory_order_relaxed); }
  uint64_t frees(SizeClass c) const { return free_[Raw(c)].load(std::memory_order_relaxed); }
  uint64_t both(SizeClass c) const { return allocs(c) + frees(c); }

 private:
  enum class Kind : uint8_t { kNone, kAlloc, kFree };

  bool Note(std::atomic<uint64_t>& n, SizeClass c, Kind kind) {
    n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    lately_[Raw(c)].store(true, std::memory_order_relaxed);
    const Kind last = last_[Raw(c)].load(std::memory_order_relaxed);
    last_[Raw(c)].store(kind, std::memory_order_relaxed);
    return last == kind;
  }

  std::atomic<bool> lately_[kMaxClasses] = {};
  std::atomic<Kind> last_[kMaxClasses] = {};
  std::atomic<uint64_t> alloc_[kMaxClasses] = {};
  std::atomic<uint64_t> free_[kMaxClasses] = {};
};

}  // namespace strata
