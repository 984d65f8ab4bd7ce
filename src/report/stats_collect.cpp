// Gathering the statistics. See stats_collect.h. Counts are read while the program runs, so a
// snapshot may be off by what moved meanwhile; nothing here stops the program.
#include "report/stats_collect.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/write_all.h"
#include "malloc/background.h"
#include "malloc/error_report.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/lifetimes.h"
#include "malloc/limits.h"
#include "malloc/own_process.h"
#include "malloc/price.h"
#include "malloc/region_calls.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/metadata_memory.h"
#include "os/resident.h"
#include "os/side_stack.h"
#include "profile/stack_walk.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

size_t Sub(size_t a, size_t b) { return a > b ? a - b : 0; }

// Thread caches know their bytes as a whole, not by class.
void CollectThreadCaches(Runtime& r, HeapStats& out) {
  const CacheCounts threads = r.front().threads.Counts();
  out.cpu_cache += threads.bytes;
  out.hits += threads.hits;
  out.misses_alloc += threads.misses_alloc;
  out.misses_free += threads.misses_free;
}

// Asked bytes of a class's live objects, from the average request seen at its misses: the fast path
// cannot afford to note sizes. Of a class without misses, all of it; live + internal_slack is exact
// whatever the estimate.
size_t EstimateRequested(const Runtime::RequestedSample& sample, size_t objects, size_t size) {
  const uint64_t count = sample.count.load(std::memory_order_relaxed);
  if (count == 0) return objects * size;
  const double average = static_cast<double>(sample.bytes.load(std::memory_order_relaxed)) /
                         static_cast<double>(count);
  const double capped = average > static_cast<double>(size) ? static_cast<double>(size) : average;
  return static_cast<size_t>(capped * static_cast<double>(objects));
}

struct SpanTotals {
  size_t bytes = 0;    // of all spans
  size_t objects = 0;  // bytes of objects the central lists have given out
};

SpanTotals CollectClasses(Runtime& r, HeapStats& out) {
  SpanTotals totals;
  size_t live = 0;
  size_t requested = 0;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    const ClassInfo& info = InfoOf(c);
    ClassStats& k = out.classes[i];
    CentralStats central;
    if (auto* list = r.heap.central().Find(c)) central = list->Stats();
    r.heap.central().groups().ForEachOf(c, [&central](auto& list) { central.Add(list.Stats()); });
    k.spans = central.spans;
    k.pages = central.pages;
    k.central = central.objects_free;
    k.spans_taken = central.spans_taken;
    k.spans_returned = central.spans_returned;
    for (size_t b = 0; b < kOccupancyBuckets; ++b) {
      k.observed[b] = central.observed[b];
      k.returned[b] = central.returned[b];
    }
    k.transfer = r.heap.transfer().used(c) + r.front().transfer.used(c);
    if (r.front().per_cpu) {
      const CpuCacheClassStats cpu = r.front().cpu.Stats(c);
      k.cpu = cpu.objects;
      k.hits = cpu.pops;
      k.misses_alloc = cpu.misses_alloc;
      k.misses_free = cpu.misses_free;
      out.hits += cpu.pops;
      out.misses_alloc += cpu.misses_alloc;
      out.misses_free += cpu.misses_free;
    }
    k.live = Sub(central.objects_out, k.cpu + k.transfer);
    out.cpu_cache += k.cpu * info.size;
    out.transfer_cache += k.transfer * info.size;
    totals.bytes += central.pages * kPageSize;
    totals.objects += central.objects_out * info.size;
    live += k.live * info.size;
    if (IsLasting(c)) out.predictions.lasting_live += k.live * info.size;
    requested += EstimateRequested(r.requested[i], k.live, info.size);
  }
  out.live = requested;
  out.internal_slack = Sub(live, requested);
  return totals;
}

// Per-thread objects are in no class's count of cached ones: they were counted live above.
void TakeThreadCachesFromLive(size_t bytes, HeapStats& out) {
  const size_t total = out.live + out.internal_slack;
  if (total == 0) return;
  const double share =
      static_cast<double>(bytes < total ? bytes : total) / static_cast<double>(total);
  out.live -= static_cast<size_t>(static_cast<double>(out.live) * share);
  out.internal_slack -= static_cast<size_t>(static_cast<double>(out.internal_slack) * share);
}

bool ReadCpuCache(size_t vcpu, CpuCacheRow& out) {
  const CpuCacheVcpuStats s = TheRuntime().front().cpu.StatsOf(vcpu);
  out = {vcpu, s.room, s.used, s.limit, s.misses_alloc, s.misses_free, s.resizes};
  return s.in_use;
}

void ReadTransferDomain(size_t domain, TransferDomainRow& out) {
  const DomainStats s = TheRuntime().front().transfer.StatsOf(domain);
  out = {domain, s.cpus, s.objects, s.bytes, s.active};
}

void CollectGroups(Runtime& r, GroupStats& out) {
  auto& groups = r.heap.central().groups();
  out.contexts = Contexts();
  out.hot = groups.BytesIn(ObjectGroup::kHot);
  out.cold = groups.BytesIn(ObjectGroup::kCold);
  for (size_t i = 0; i < out.contexts; ++i) {
    const size_t bytes = groups.BytesIn(ContextGroup(i));
    out.in_contexts += bytes;
    if (bytes > out.fullest_context) out.fullest_context = bytes;
  }
}

// Those of small blocks count as metadata, with their pages. Large ones are live blocks like
// others, though they are on no page of the heap.
void CollectGuards(HeapStats& out) {
  const ProcessGuards& small = SmallGuards();
  const ProcessGuards& large = LargeGuards();
  out.guard = {GuardEvery(),
               small.slots() + large.slots(),
               small.taken() + large.taken(),
               small.live() + large.live(),
               small.live_bytes() + large.live_bytes(),
               MemoryErrors()};
  out.live += large.live_bytes();
  out.internal_slack += Sub(large.open_bytes(), large.live_bytes());
}

void CollectBackground(HeapStats& out) {
  const BackgroundStats background = ReadBackgroundStats();
  out.background_running = background.running;
  out.background_ticks = background.ticks;
  out.background_released = background.released_bytes;
}

void CollectLearning(HeapStats& out) {
  const LearningStats learning = StatsOfLearning();
  out.predictions.places = learning.places;
  out.predictions.changes = learning.changes;
  out.predictions.rounds = learning.rounds;
  out.predictions.bytes = learning.bytes;
  out.metadata += learning.bytes;
  out.predictions.model_asked = learning.model.asked;
  out.predictions.model_hits = learning.model.hits;
  out.predictions.model_misses = learning.model.misses;
  out.predictions.model_disagreements = learning.model.disagreements;
}

void CollectAll(HeapStats& out) {
  Runtime& r = TheRuntime();
  out.cache_mode = CacheModeName();
  out.rseq = r.rseq.index == RseqIndex::kMmCid
                 ? "mm_cid"
                 : (r.rseq.index == RseqIndex::kCpuId ? "cpu_id" : "none");
  out.thp_mode = NameOf(ReadThpMode());
  const SpanTotals totals = CollectClasses(r, out);
  const size_t by_cpu = out.cpu_cache;
  CollectThreadCaches(r, out);
  TakeThreadCachesFromLive(out.cpu_cache - by_cpu, out);
  const LargeBlockCounts large = r.heap.large().counts();
  out.live += large.requested;
  out.internal_slack += Sub(large.pages.raw() * kPageSize, large.requested);
  out.page_heap = r.heap.large().PageStats();
  out.central_free = Sub(Sub(totals.bytes, totals.objects), out.page_heap.filler.in_use_released);
  out.page_heap_free = out.page_heap.free_backed;
  out.mapped = out.page_heap.allocator.mapped;
  out.metadata = r.arena.used_bytes() + r.sample_arena.used_bytes() +
                 r.kernel.side_array_bytes(PageMap::kEntries) +
                 r.kernel.side_array_bytes(PageMap::kSpans) + sizeof(Runtime) + UnwindTableBytes();
  if (r.front().per_cpu) {
    out.vcpus = r.front().cpu.active_vcpus();
    out.max_vcpus = r.front().cpu.max_vcpus();
    out.cpu_cache_row = ReadCpuCache;
    out.cpu_cache_total = r.front().cpu.total();
    out.cpu_cache_unassigned = r.front().cpu.pool();
  }
  out.limits = ReadLimits();
  out.limits.soft_hits = out.page_heap.soft_hits;
  out.limits.hard_failures = out.page_heap.hard_failures;
  out.price = ReadPrice();
  out.transfer_domains = r.front().transfer.domains();
  out.transfer_domain_row = ReadTransferDomain;
  CollectBackground(out);
  out.sampler = r.sampler.Stats();
  CollectGuards(out);
  CollectLearning(out);
  CollectGroups(r, out.groups);
  CollectHotness(out.hotness);
}

// Walks the heap span by span and asks the kernel which native pages are resident.
struct Residency {
  size_t in_use = 0;         // resident, inside spans and large blocks
  size_t free = 0;           // resident, in no run
  size_t in_use_absent = 0;  // not resident, inside spans and large blocks
};

Residency CollectResidency(Runtime& r) {
  constexpr size_t kAtOnce = 4096;  // native pages: 16 MiB
  unsigned char resident[kAtOnce];
  Residency out;
  const size_t end = r.kernel.mapped_end() / kPageSize;
  size_t in_use_until = 0;  // page up to which the last span or block seen reaches
  for (size_t page = 0; page < end; page += kAtOnce / kNativePerPage) {
    const size_t pages =
        end - page < kAtOnce / kNativePerPage ? end - page : kAtOnce / kNativePerPage;
    // A refusal means a hole that someone else's mapping made in the window: nothing of ours is
    // there.
    const bool known =
        ResidentPages(r.kernel.base() + page * kPageSize, pages * kNativePerPage, resident);
    for (size_t i = 0; i < pages; ++i) {
      const size_t here = page + i;
      if (here >= in_use_until) {
        const Span* span = r.heap.page_map().SpanOf(PageId(here));
        if (span != nullptr && span->first_page == here) in_use_until = here + span->num_pages;
      }
      for (size_t n = 0; known && n < kNativePerPage; ++n) {
        const bool is_resident = (resident[i * kNativePerPage + n] & 1) != 0;
        if (here < in_use_until) {
          ++(is_resident ? out.in_use : out.in_use_absent);
        } else if (is_resident) {
          ++out.free;
        }
      }
    }
  }
  out.in_use *= kNativePageSize;
  out.free *= kNativePageSize;
  out.in_use_absent *= kNativePageSize;
  return out;
}

}  // namespace

void CollectCounts(HeapStats& out) {
  CollectAll(out);
  out.released = Sub(out.page_heap.filler.released + out.page_heap.region.released +
                         out.page_heap.allocator.free,
                     0) +
                 out.page_heap.filler.in_use_released;
}

namespace {

bool KnowsResidency(const Runtime& r) {
  unsigned char resident[kNativePerPage];
  return ResidentPages(r.kernel.base(), kNativePerPage, resident);
}

// By the heap's own records: what was not given back counts as resident.
void CollectByRecords(HeapStats& out) {
  CollectCounts(out);
  out.resident_known = false;
  out.resident_heap = Sub(out.mapped, out.released);
  LargeGuards().VisitLive([&out](uintptr_t, size_t bytes) { out.resident_heap += bytes; });
}

}  // namespace

void CollectStats(HeapStats& out) {
  Runtime& r = TheRuntime();
  out.pid = ProcessNumber();
  if (!KnowsResidency(r)) return CollectByRecords(out);
  CollectAll(out);
  const Residency seen = CollectResidency(r);
  out.resident_heap = seen.in_use + seen.free;
  out.page_heap_free = seen.free;
  out.untouched = Sub(seen.in_use_absent, out.page_heap.filler.in_use_released);
  out.released = Sub(Sub(out.mapped, out.resident_heap), out.untouched);
  LargeGuards().VisitLive([&out](uintptr_t start, size_t bytes) {
    const size_t resident = ResidentBytes(start, bytes);
    out.resident_heap += resident;
    out.untouched += bytes - resident;
  });
  out.metadata = ResidentMetadata() + SmallGuards().open_bytes() + UnwindTableBytes() +
                 r.kernel.ResidentSideArrays() + out.predictions.bytes +
                 ResidentBytes(RoundDown(reinterpret_cast<uintptr_t>(&r), kNativePageSize),
                               RoundUp(sizeof(Runtime), kNativePageSize));
  out.hugepage_backed = HugeBackedBytes(r.kernel.base(), r.kernel.base() + r.kernel.mapped_end());
}

void WriteOccupancy(TextSink& sink) {
  Runtime& r = TheRuntime();
  bool first = true;
  const bool known = KnowsResidency(r);
  r.heap.large().VisitHugePages([&](HugePageId page, size_t used, size_t released, char state,
                                    uint32_t age_s) {
    unsigned char resident[kNativePerHugePage];
    size_t count = known ? 0 : (kPagesPerHugePage - released) * kNativePerPage;
    if (known && ResidentPages(r.kernel.base() + OffsetOf(page), kNativePerHugePage, resident)) {
      for (const unsigned char c : resident) count += c & 1;
    }
    if (!first) sink.Char(',');
    first = false;
    sink.Char('[')
        .Number(used)
        .Char(',')
        .Number(count / kNativePerPage)
        .Text(",\"")
        .Char(state)
        .Text("\",")
        .Number(age_s)
        .Char(']');
  });
}

bool FillText(ScratchArray<char>& text) {
  constexpr size_t kCapacity = size_t{256} << 10;
  if (!text.Reserve(kCapacity)) return false;
  OnSideStack([&text] {
    HeapStats s;
    CollectStats(s);
    TextSink sink(text.data(), kCapacity);
    WriteText(s, sink);
    text.Grow(sink.Finish());
  });
  return true;
}

// A filter of the program's own allows the write that it asked for, and nothing to keep its signals
// away.
void PrintText(const ScratchArray<char>& text) {
  if (MaySetSignalMask()) {
    WriteAll(STDERR_FILENO, text.data(), text.size());
    return;
  }
  for (size_t at = 0; at < text.size();) {
    const long n = raw::Call(SYS_write, STDERR_FILENO, raw::Word(text.data() + at),
                             static_cast<long>(text.size() - at));
    if (n <= 0 && n != -EINTR) return;
    at += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

}  // namespace strata
