// The production heap: all of its tiers as one flat list, from the caches that malloc meets first
// down to the pages. To read the architecture, start here; each line says where to go on.
//
//   malloc, free                                                malloc/fast_path.h
//     ├─ Front          objects by CPU or thread; hits end here   heaps/front_end.h
//     │   └─ Transfer     batches of objects on their way         cache/transfer_cache.h
//     │       └─ Central    spans of objects, a list a class      span/central_free_list.h
//     │           └─ Spans    runs with a record ───┐             heaps/span_source.h
//     └─ Large          blocks above 256 KiB ───────┤             heaps/large_tier.h
//                         Pages: runs, on hugepages ┘             hugepage/page_heap.h
//                           └─ Kernel: address space, memory      os/page_kernel.h
//
// A free asks the page map: an object goes to Front, a large block to Large and on to Pages;
// neither calls the kernel. Beside the tiers, Blocks answers what lies at an address and reports
// bad frees (block_lookup.h), and Release gives memory back by the clock and on request
// (release_schedule.h, release_steps.h). A process can make many of these heaps; only Front depends
// on threads and CPUs, so a process has one. Thread-safe. A lock is held while another is taken in
// this order only: isolation, list of thread caches, sampler, CPU caches, Transfer, Central, Large,
// Pages, records, kernel, arena; most are dropped before the tier below is called.
#pragma once

#include <cstddef>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/transfer_cache.h"
#include "heaps/block_lookup.h"
#include "heaps/central_lists.h"
#include "heaps/front_end.h"
#include "heaps/growth.h"
#include "heaps/large_tier.h"
#include "heaps/release_schedule.h"
#include "heaps/release_steps.h"
#include "heaps/span_source.h"
#include "heaps/tier_options.h"
#include "hugepage/page_heap.h"
#include "span/page_map.h"
#include "span/span.h"

namespace strata {

// Kernel: a PageKernel that also gives base() and side_array() for the page map's arrays.
template <class Kernel, template <class Shared> class FrontEnd = NoFrontEnd>
class StrataHeap {
 public:
  using Blocks = BlockLookup<Kernel>;
  using PageTier = PageHeap<Kernel>;
  using Large = LargeTier<Kernel>;
  using Spans = SpanSource<Kernel>;
  using Central = CentralLists<Spans>;
  using Transfer = TransferCache<Central>;
  using Front = FrontEnd<Transfer>;
  using Release = ReleaseSteps<Kernel, PageTier, Large, Central, Transfer>;

  StrataHeap(Kernel& kernel, MetadataArena& arena, const PageHeapOptions& options,
             BadFreeHandler bad_free, const TierOptions& tiers = {})
      : kernel_(kernel),
        arena_(arena),
        blocks_(kernel, page_map_, bad_free),
        records_(arena),
        pages_(kernel, arena, options),
        large_(kernel, pages_, arena, records_, page_map_, blocks_, growth_, tiers.cpu_number),
        spans_(kernel, pages_, page_map_, records_, blocks_, growth_),
        central_(spans_, arena, tiers.span_order),
        front_(transfer_, arena),
        release_(kernel, pages_, large_, central_, transfer_),
        schedule_(release_) {
    page_map_.Attach(kernel.base(), kernel.side_array(PageMap::kEntries),
                     static_cast<Span**>(kernel.side_array(PageMap::kSpans)));
    transfer_.Init(&central_, &arena);
  }

  Front& front() { return front_; }
  const Front& front() const { return front_; }
  Transfer& transfer() { return transfer_; }
  Central& central() { return central_; }
  Large& large() { return large_; }
  const Large& large() const { return large_; }
  PageTier& page_heap() { return pages_; }
  Kernel& kernel() { return kernel_; }
  PageMap& page_map() { return page_map_; }
  const PageMap& page_map() const { return page_map_; }
  const Blocks& blocks() const { return blocks_; }
  Growth& growth() { return growth_; }
  // Gives memory back: about once a second, from the background thread; at once; and what the
  // tiers above the pages keep, only down to these.
  HeapTick Tick(Giving giving, CpuUse cpu = CpuUse::kLittle) { return schedule_.Tick(giving, cpu); }
  size_t ReleaseNow(size_t bytes) { return release_.ReleaseNow(bytes); }
  void EmptyCaches() { release_.EmptyCaches(); }
  void GiveUnused() { release_.GiveUnused(); }

  // Calls f(Lock&) for every lock in the order above, from the CPU caches' on.
  template <class F>
  void VisitLocks(F f) {
    front_.VisitLocks(f);
    transfer_.VisitLocks(f);
    for (Lock* lock : {&central_.making_lock(), &central_.groups().making_lock()}) f(*lock);
    central_.ForEach([&f](auto& list) { f(list.lock()); });
    large_.VisitLocks(f);
    for (Lock* lock : {&pages_.lock(), &records_.lock(), &kernel_.lock(), &arena_.lock()}) f(*lock);
  }
  Lock& isolation_lock() { return spans_.isolation_lock(); }  // for spans out of lists' reach

 private:
  Kernel& kernel_;
  MetadataArena& arena_;
  PageMap page_map_;
  Blocks blocks_;
  SpanPool records_;
  Growth growth_;
  PageTier pages_;
  Large large_;
  Spans spans_;
  Central central_;
  Transfer transfer_;
  Front front_;
  Release release_;
  ReleaseSchedule<Release> schedule_;
};

}  // namespace strata
