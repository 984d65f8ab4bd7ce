// A snapshot of everything the heap knows about itself. Filled by report/stats_collect.cpp, written
// by the exporters beside this file, which know nothing of how the heap works. Sits in profile.
//
// The figures add up: resident = live + internal_slack + caches + free_resident + metadata -
// untouched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugepage/page_heap_stats.h"
#include "profile/hotness_stats.h"
#include "profile/sampler_stats.h"
#include "profile/text_sink.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

struct ClassStats {
  size_t spans = 0;
  size_t pages = 0;  // of the spans
  size_t live = 0;   // objects in the program's hands
  size_t cpu = 0;    // objects in front-end caches
  size_t transfer = 0;
  size_t central = 0;  // free objects in spans
  uint64_t hits = 0;
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
  uint64_t spans_taken = 0;
  uint64_t spans_returned = 0;
  uint64_t observed[kOccupancyBuckets] = {};  // spans seen at the ticks, by objects given out
  uint64_t returned[kOccupancyBuckets] = {};  // of them, those that emptied and went back
};

// One virtual CPU's cache. Bytes, and counts since the start.
struct CpuCacheRow {
  size_t vcpu = 0;
  size_t capacity = 0;  // its classes have room for
  size_t used = 0;      // of objects that lie there
  size_t limit = 0;     // of capacity
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
  uint64_t resizes = 0;  // changes of the limit
};

// Tells about the vCPU'th cache; false if it was never used. Rows are asked for one by one, because
// there may be a thousand.
using CpuCacheReader = bool (*)(size_t vcpu, CpuCacheRow& out);

// The transfer cache of one last-level-cache domain.
struct TransferDomainRow {
  size_t domain = 0;
  size_t cpus = 0;
  size_t objects = 0;
  size_t bytes = 0;
  bool active = false;  // it is in use now
};
using TransferDomainReader = void (*)(size_t domain, TransferDomainRow& out);

// Of the last look at them. Bytes; 0: none.
struct LimitStats {
  size_t cgroup_limit = 0;  // of the ancestor with the least room
  size_t cgroup_usage = 0;
  double cpu_quota = 0;  // CPUs
  size_t soft_limit = 0;
  size_t hard_limit = 0;
  size_t soft_hits = 0;
  size_t hard_failures = 0;
};

// What growth costs now, and what was paid (price/price_law.h).
struct PriceStats {
  bool on = false;
  uint64_t weight = 0;
  double seconds_a_mib = 0;  // of growth; 0: nothing
  size_t supply = 0;         // bytes that the process and its neighbours may use
  size_t left = 0;           // of it
  double pressure = 0;       // share of the last 10 s in which somebody waited for memory
  size_t debt = 0;           // bytes of growth that are not paid for
  uint64_t waiting = 0;      // threads, now
  uint64_t waits = 0;
  uint64_t waited_ns = 0;
  uint64_t fork_waits = 0;
  uint64_t fork_waited_ns = 0;
};

// Bytes of live objects in groups (base/object_group.h).
struct GroupStats {
  size_t contexts = 0;  // groups of contexts; 0: none
  size_t hot = 0;
  size_t cold = 0;
  size_t in_contexts = 0;
  size_t fullest_context = 0;
};

struct HeapStats {
  const char* cache_mode = "none";
  const char* rseq = "none";
  const char* thp_mode = "unknown";
  int pid = 0;

  // Whether the kernel said what is in memory. If not, untouched and hugepage_backed are not known,
  // and resident_heap is the most that it can be.
  bool resident_known = true;
  // Bytes.
  size_t live = 0;
  size_t internal_slack = 0;
  size_t cpu_cache = 0;
  size_t transfer_cache = 0;
  size_t central_free = 0;    // resident part of the free objects and tails of spans
  size_t page_heap_free = 0;  // resident part of the pages in no run
  size_t released = 0;
  size_t metadata = 0;
  size_t untouched = 0;
  size_t resident_heap = 0;
  size_t mapped = 0;
  size_t hugepage_backed = 0;

  PageHeapStats page_heap;
  ClassStats classes[kMaxClasses];
  uint64_t hits = 0;
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
  size_t vcpus = 0;
  size_t max_vcpus = 0;  // that cpu_cache_row knows
  CpuCacheReader cpu_cache_row = nullptr;
  size_t cpu_cache_total = 0;   // bytes all of them may hold
  size_t transfer_domains = 0;  // that transfer_domain_row knows; 0: one domain, or switched off
  TransferDomainReader transfer_domain_row = nullptr;
  size_t cpu_cache_unassigned = 0;  // of it, in no cache's limit

  LimitStats limits;
  PriceStats price;
  bool background_running = false;
  uint64_t background_ticks = 0;
  uint64_t background_released = 0;

  SamplerStats sampler;
  GuardStats guard;
  PredictionStats predictions;
  GroupStats groups;
  HotnessStats hotness;

  size_t caches() const { return cpu_cache + transfer_cache; }
  size_t free_resident() const { return central_free + page_heap_free; }
  size_t resident() const { return resident_heap + metadata; }
  double coverage() const {
    return resident_heap == 0
               ? 0
               : static_cast<double>(hugepage_backed) / static_cast<double>(resident_heap);
  }
};

// Writes one [used, resident, "state", age_s] row for each mapped hugepage, with commas between.
using OccupancyWriter = void (*)(TextSink& sink);

void WriteJson(const HeapStats& stats, TextSink& sink, OccupancyWriter occupancy);
void WriteText(const HeapStats& stats, TextSink& sink);

}  // namespace strata
