// The exported functions that tell about the heap: strata_stats and strata_stats_json; glibc's are
// in glibc/mallinfo.cpp. Sits at the top of report.
#include <errno.h>

#include <cstddef>

#include "malloc/runtime.h"
#include "os/side_stack.h"
#include "report/stats_collect.h"
#include "strata/strata.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace strata;

bool Ready() { return EnsureStarted() == RunState::kReady; }

void FillStats(strata_stats_t* out) {
  HeapStats s;
  CollectStats(s);
  out->live = s.live;
  out->internal_slack = s.internal_slack;
  out->caches = s.caches();
  out->free_resident = s.free_resident();
  out->released = s.released;
  out->metadata = s.metadata;
  out->untouched = s.untouched;
  out->resident = s.resident();
  out->mapped = s.mapped;
  out->hugepage_backed = s.hugepage_backed;
  out->coverage = s.coverage();
  out->cache_hits = s.hits;
  out->cache_misses_alloc = s.misses_alloc;
  out->cache_misses_free = s.misses_free;
}

void FillJson(TextSink& sink) {
  HeapStats s;
  CollectStats(s);
  WriteJson(s, sink, WriteOccupancy);
}

}  // namespace

STRATA_EXPORT int strata_stats(strata_stats_t* out) {
  if (out == nullptr) return EINVAL;
  *out = {};
  if (Ready()) OnSideStack([out] { FillStats(out); });
  return 0;
}

STRATA_EXPORT size_t strata_stats_json(char* buffer, size_t capacity) {
  size_t length = 0;
  OnSideStack([&] {
    TextSink sink(buffer, buffer == nullptr ? 0 : capacity);
    if (Ready()) {
      FillJson(sink);
    } else {
      sink.Text("{}");
    }
    length = sink.Finish();
  });
  return length;
}
