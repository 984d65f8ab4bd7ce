// A source of aligned runs from Strata's page heap, for heaps of layers that are preloaded: their
// chunks then lie together on hugepages. It starts with its first use. The page heap gives back
// nothing by itself and there is no thread here to make it, so the caller's free does: when more is
// free than the heap's policy keeps, by default a quarter of what is in use and some, half of that
// goes back to the system.
//
// One lock around it all. So nobody is inside the page heap when a fork takes that lock, and none
// of the page heap's own locks has to be taken then. Sits in heaps.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

#include "base/errno_keeper.h"
#include "base/metadata_arena.h"
#include "hugepage/page_heap.h"
#include "os/system_kernel.h"
#include "strata/layers/detail/sync.h"
#include "strata/layers/thread/locked.h"

namespace strata {

struct KeepAQuarter {
  static constexpr size_t Most(size_t in_use) { return in_use / 4 + (16 << 20); }
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
    if (free > most) parts_.heap.ReleaseNow(free - most / 2);
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

  struct Parts {
    Parts()
        : heap((kernel.Init(DefaultWindow(), HugePageAdvice::kWherePossible, arena), kernel), arena,
               PageHeapOptions()) {}
    SystemKernel kernel;
    MetadataArena arena{MapMetadata};
    PageHeap<SystemKernel> heap;
  };

  layers::FutexLock lock_;
  bool started_ = false;
  std::atomic<uintptr_t> base_{0};
  size_t in_use_ = 0;
  union {
    char none_;
    Parts parts_;
  };
};

}  // namespace strata
