// Huge pages for LLAMA's shards: runs from the source below and their entries in the directory. The
// source is a heap of layers whose runs begin at multiples of 2 MiB, such as PageHeapSource, and of
// which parts of a run may be given back by themselves; and the time. Sits in lifetime;
// page_shard.h takes from it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "lifetime/huge_block_page.h"
#include "lifetime/page_directory.h"

namespace strata {

// Contiguous huge pages.
struct HugeRun {
  uintptr_t base = 0;
  size_t pages = 0;
  bool empty() const { return pages == 0; }
  uintptr_t end() const { return base + pages * kHugePageSize; }
};

// What goes back once a shard's lock is free: of one call, so only a few runs.
class ReleasedRuns {
 public:
  void Add(uintptr_t base, size_t pages) {
    if (n_ > 0 && runs_[n_ - 1].end() == base) {
      runs_[n_ - 1].pages += pages;
    } else {
      STRATA_DCHECK(n_ < kMost);
      runs_[n_++] = {base, pages};
    }
  }
  template <class Supply>
  void GiveTo(Supply& supply) {
    for (size_t i = 0; i < n_; ++i) supply.Give(runs_[i]);
  }

 private:
  // The open page, the pages behind it, and a page that an alignment skips; or, of a free, one row
  // of pages.
  static constexpr size_t kMost = 4;
  HugeRun runs_[kMost];
  size_t n_ = 0;
};

// An empty page that is needed again so soon should have stayed: later it costs a thousandth of the
// time, a visit to the kernel and the zeroing of 2 MiB. For the pages here, and for what the source
// keeps.
inline constexpr uint64_t kPageSoonNs = 100'000'000;

// LLAMA gives every empty page back at once (Maas et al., CACM 67(4), 2024, section 3.2). One that
// each of several shards keeps spares threads that empty pages as fast as they fill them a meeting
// at the source's lock.
enum class SparePage : bool { kNone, kOne };

// Whether pages may be fetched where none at hand has room.
enum class Fresh : bool { kNone, kAsNeeded };

template <class Source, class Clock>
class HugePageSupply {
  static_assert(Source::alignment % kHugePageSize == 0, "LLAMA needs runs of whole huge pages");
  static_assert(Source::thread_safe, "LLAMA's shards share the source");

 public:
  constexpr HugePageSupply(Source& source, MetadataArena::MapFunction map)
      : arena_(map), source_(source) {}

  // align: a power of two, in bytes; below 2 MiB it is met anyway. Empty: out of memory.
  HugeRun Take(size_t pages, size_t align) {
    const size_t bytes = pages * kHugePageSize;
    void* p = align > kHugePageSize ? source_.allocate(bytes, align) : source_.allocate(bytes);
    if (p == nullptr) return {};
    const HugeRun run{reinterpret_cast<uintptr_t>(p), pages};
    if (directory_.Prepare(run.base, bytes, arena_)) return run;
    source_.deallocate(p, bytes);
    return {};
  }
  // None of them has a record any more.
  void Give(const HugeRun& run) {
    source_.deallocate(reinterpret_cast<void*>(run.base), run.pages * kHugePageSize);
  }

  // Several shards are in use from now on.
  void Share() { shared_.store(true, std::memory_order_relaxed); }
  bool shared() const { return shared_.load(std::memory_order_relaxed); }

  HugeBlockPage* PageOf(uintptr_t p) const { return directory_.Find(p); }
  PageDirectory& directory() { return directory_; }
  MetadataArena& arena() { return arena_; }
  Source& source() { return source_; }
  Clock& clock() { return clock_; }
  uint64_t NowNs() { return clock_.NowNs(); }

 private:
  PageDirectory directory_;
  MetadataArena arena_;
  Source& source_;
  std::atomic<bool> shared_{false};
  [[no_unique_address]] Clock clock_;
};

}  // namespace strata
