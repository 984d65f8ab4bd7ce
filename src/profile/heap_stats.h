// A snapshot of everything the heap knows about itself. Filled by malloc/stats_collect.cpp, written
// by the exporters beside this file, which know nothing of how the heap works. Sits in profile.
//
// The identity (design §4.5): resident = live + internal_slack + caches + free_resident + metadata
// - untouched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hugepage/page_heap_stats.h"
#include "profile/text_sink.h"
#include "span/size_classes.h"

namespace strata {

struct ClassStats {
  size_t spans = 0;
  size_t live = 0;  // objects in the program's hands
  size_t cpu = 0;   // objects in front-end caches
  size_t transfer = 0;
  size_t central = 0;  // free objects in spans
  uint64_t hits = 0;
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
};

struct HeapStats {
  const char* cache_mode = "none";
  const char* rseq = "none";
  const char* thp_mode = "unknown";
  int pid = 0;

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

  bool background_running = false;
  uint64_t background_ticks = 0;
  uint64_t background_released = 0;

  size_t caches() const { return cpu_cache + transfer_cache; }
  size_t free_resident() const { return central_free + page_heap_free; }
  size_t resident() const { return resident_heap + metadata; }
  double coverage() const {
    return resident_heap == 0
               ? 0
               : static_cast<double>(hugepage_backed) / static_cast<double>(resident_heap);
  }
};

// Writes one [used, resident, "state"] triple for each mapped hugepage, with commas between.
using OccupancyWriter = void (*)(TextSink& sink);

void WriteJson(const HeapStats& stats, TextSink& sink, OccupancyWriter occupancy);
void WriteText(const HeapStats& stats, TextSink& sink);

}  // namespace strata
