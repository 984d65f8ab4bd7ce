// What a vCPU may hold of a class beyond the slots of its slab: the slots number 65,536 in all, so
// a class of tiny objects can have but 2,048, which is 16 KiB of the smallest. The rest of what the
// vCPU's limit allows lies here, in stacks that move whole batches to and from the slab without a
// line that other CPUs write. Sits in cache; the vCPU's lock guards it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/metadata_arena.h"
#include "span/size_classes.h"

namespace strata {

class CacheReserve {
 public:
  // Objects that a vCPU can hold beyond its slots; 0 for classes whose slots are enough.
  static constexpr size_t CapacityOf(SizeClass c) {
    const ClassInfo& info = InfoOf(c);
    const size_t all = kMostBytes / info.size;
    return all > info.cpu_slots ? all - info.cpu_slots : 0;
  }

  // Where up to CapacityOf(c) - used(c) objects can be put on top, for Added; null when there is no
  // memory for the stack.
  void** Top(SizeClass c, MetadataArena& arena) {
    Stack& s = stacks_[Raw(c)];
    if (s.objects == nullptr)
      s.objects = static_cast<void**>(arena.Allocate(CapacityOf(c) * sizeof(void*), 64));
    return s.objects == nullptr ? nullptr : s.objects + used(c);
  }
  void Added(SizeClass c, size_t n) { SetUsed(c, used(c) + n); }

  // The newest n, of used(c), which stay until Removed.
  void** Newest(SizeClass c, size_t n) { return stacks_[Raw(c)].objects + used(c) - n; }
  // The lowest `gone` of the newest n are elsewhere now.
  void Removed(SizeClass c, size_t n, size_t gone) {
    void** lowest = Newest(c, n);
    memmove(lowest, lowest + gone, (n - gone) * sizeof(void*));
    SetUsed(c, used(c) - gone);
  }

  // These two may be read without the lock.
  size_t used(SizeClass c) const { return stacks_[Raw(c)].used.load(std::memory_order_relaxed); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kMostBytes = size_t{512} << 10;  // of one class

  struct Stack {
    void** objects = nullptr;  // made on first use
    std::atomic<uint32_t> used{0};
  };

  void SetUsed(SizeClass c, size_t n) {
    bytes_.store(bytes() + n * InfoOf(c).size - used(c) * InfoOf(c).size,
                 std::memory_order_relaxed);
    stacks_[Raw(c)].used.store(static_cast<uint32_t>(n), std::memory_order_relaxed);
  }

  std::atomic<size_t> bytes_{0};
  Stack stacks_[kMaxClasses];
};

}  // namespace strata
