// A source of aligned runs from Strata's page heap, for heaps of layers that are preloaded: their
// chunks then lie together on hugepages. It starts with its first use. The page heap gives back
// nothing by itself and there is no thread here to make it, so the caller's free does: when more is
// free than the heap's policy keeps, by default a quarter of what is in use and some, half of that
// goes back to the system. If the program takes it again soon, by default within a second, that
// much more is kept from then on: at most what the policy allows, half of the most that it used,
// and 128 MiB. The first free that comes so long after memory last went back ends that. What is
// kept at the program's last free stays, even if it idles from then on: hence the bound.
//
// One lock around it all. So nobody is inside the page heap when a fork takes that lock, and none
// of the page heap's own locks has to be taken then. Sits in heaps.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/errno_keeper.h"
#include "base/metadata_arena.h"
#include "hugepage/page_heap.h"
#include "os/metadata_memory.h"
#include "os/system_kernel.h"
#include "strata/layers/detail/sync.h"
#include "strata/layers/thread/locked.h"

namespace strata {

struct KeepAQuarter {
  static constexpr size_t Most(size_t in_use) { return in_use / 4 + (16 << 20); }
  static constexpr size_t MostMore(size_t most_used) { return most_used / 2; }
  static constexpr uint64_t kSoonNs = 1'000'000'000;
};

template <size_t kAlign, class Keep = KeepAQuarter>
class PageHeapSource {
  static_assert(kAlign >= kPageSize && kAlign <= kHugePageSize && IsPowerOfTwo(kAlign));

 public:
  static constexpr size_t alignment = kAlign;
  static constexpr bool thread_safe = true;

  constexpr PageHeapSource() : none_() {}
  ~PageHeapSource() {}
  PageHeapSource(const PageHeapSource&) = delete;
  PageHeapSource& operator=(const PageHeapSource&) = delete;

  void* allocate(size_t size) { return allocate(size, kAlign); }
  // align: a power of two, up to 1 GiB.
  void* allocate(size_t size, size_t align) {
    if (size > layers::kMaxRequest || align > kMostAlign) return nullptr;
    const ErrnoKeeper keep;
    const layers::Holding hold(lock_);
    if (!started_) {
      ::new (&parts_) Parts;
      started_ = true;
      // release: owns() reads the kernel's part after it.
      base_.store(parts_.kernel.base(), std::memory_order_release);
    }
    const Pages pages = size == 0 ? Pages(1) : PagesCeil(size);
    const PageRun run =
        parts_.heap.Take({pages, Pages((align > kAlign ? align : kAlign) / kPageSize)});
    if (run.range.empty()) return nullptr;
    in_use_ += BytesOf(pages);
    most_used_ = std::max(most_used_, in_use_);
    return reinterpret_cast<void*>(parts_.kernel.base() + OffsetOf(run.range.first));
  }

  // A run, or whole hugepages of one that was taken as such.
  void deallocate(void* p, size_t size) {
    const ErrnoKeeper keep;
    const layers::Holding hold(lock_);
    const Pages pages = size == 0 ? Pages(1) : PagesCeil(size);
    const size_t offset = reinterpret_cast<uintptr_t>(p) - parts_.kernel.base();
    parts_.heap.Give({PageId(offset >> kPageShift), pages});
    in_use_ -= BytesOf(pages);
    const size_t most = Keep::Most(in_use_);
    const size_t free = BytesOf(parts_.heap.free_backed());
    if (free > most) GiveBack(free, most);
  }

  // Whether p lies in what was mapped so far; what does not may be no memory at all.
  bool owns(const void* p) const {
    const uintptr_t base = base_.load(std::memory_order_acquire);
    return base != 0 && reinterpret_cast<uintptr_t>(p) - base < parts_.kernel.mapped_end();
  }

  template <class F>
  void visit_locks(F&& f) {
    f(lock_);
  }

  // Bytes; for tests.
  size_t in_use() {
    const layers::Holding hold(lock_);
    return in_use_;
  }
  size_t free_backed() {
    const layers::Holding hold(lock_);
    return started_ ? BytesOf(parts_.heap.free_backed()) : 0;
  }

 private:
  static constexpr size_t kMostAlign = size_t{512} << kHugePageShift;
  static constexpr size_t kMostMore = size_t{128} << 20;

  // Under the lock. `free` bytes are, of which the policy keeps `most`.
  void GiveBack(size_t free, size_t most) {
    const uint64_t now = parts_.kernel.CoarseNowNs();
    if (now - released_at_ns_ > Keep::kSoonNs) {
      more_ = 0;
    } else if (most_used_ > enough_for_) {  // what went was taken again
      const size_t missed = std::min(most_used_ - enough_for_, std::exchange(released_, 0));
      more_ = std::max(more_, std::min({more_ + missed, Keep::MostMore(most_used_), kMostMore}));
    }
    if (free <= most + more_) return;
    released_ = parts_.heap.ReleaseNow(free - more_ - most / 2);
    released_at_ns_ = now;
    enough_for_ = in_use_ + free - std::min(free, released_);
    most_used_ = in_use_;
  }

  struct Parts {
    Parts()
        : heap((kernel.Init(DefaultWindow(), HugePageAdvice::kWherePossible, arena), kernel), arena,
               PageHeapOptions{.ticks = false}) {}
    SystemKernel kernel;
    MetadataArena arena{MapMetadata};
    PageHeap<SystemKernel> heap;
  };

  layers::FutexLock lock_;
  bool started_ = false;
  std::atomic<uintptr_t> base_{0};
  size_t in_use_ = 0;
  // Of the last time that something went back: when, how much, and how much could be in use again
  // without it; since then, how much was.
  uint64_t released_at_ns_ = 0;
  size_t released_ = 0;
  size_t enough_for_ = 0;
  size_t most_used_ = 0;
  size_t more_ = 0;  // what is kept beyond the policy
  union {
    char none_;
    Parts parts_;
  };
};

}  // namespace strata
