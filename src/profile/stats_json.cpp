// The statistics as JSON. Names and units are stable: docs/statistics.md lists them. Sits in
// profile.
#include "base/version.h"
#include "profile/heap_stats.h"

namespace strata {
namespace {

// Writes the members of one object: comma, quoted name, value.
class Object {
 public:
  explicit Object(TextSink& sink) : sink_(sink) { sink_.Char('{'); }
  Object& Field(const char* name, uint64_t value) {
    Name(name).Number(value);
    return *this;
  }
  Object& Field(const char* name, const char* value) {
    Name(name).Char('"').Text(value).Char('"');
    return *this;
  }
  Object& Field(const char* name, bool value) {
    Name(name).Text(value ? "true" : "false");
    return *this;
  }
  Object& Field(const char* name, double value) {
    Name(name).Fraction(value);
    return *this;
  }
  template <size_t N>
  Object& Field(const char* name, const uint64_t (&values)[N]) {
    Name(name).Char('[');
    for (size_t i = 0; i < N; ++i) {
      if (i != 0) sink_.Char(',');
      sink_.Number(values[i]);
    }
    sink_.Char(']');
    return *this;
  }
  TextSink& Name(const char* name) {
    if (!first_) sink_.Char(',');
    first_ = false;
    return sink_.Char('"').Text(name).Text("\":");
  }
  void End() { sink_.Char('}'); }

 private:
  TextSink& sink_;
  bool first_ = true;
};

// Writes the rows of one array.
class Array {
 public:
  explicit Array(TextSink& sink) : sink_(sink) { sink_.Char('['); }
  Object Row() {
    if (!first_) sink_.Char(',');
    first_ = false;
    return Object(sink_);
  }
  void End() { sink_.Char(']'); }

 private:
  TextSink& sink_;
  bool first_ = true;
};

void WriteBytes(const HeapStats& s, TextSink& sink) {
  Object bytes(sink);
  bytes.Field("live", s.live)
      .Field("internal_slack", s.internal_slack)
      .Field("caches", s.caches())
      .Field("cpu_cache", s.cpu_cache)
      .Field("transfer_cache", s.transfer_cache)
      .Field("central_free", s.central_free)
      .Field("page_heap_free", s.page_heap_free)
      .Field("free_resident", s.free_resident())
      .Field("released", s.released)
      .Field("metadata", s.metadata)
      .Field("resident", s.resident())
      .Field("mapped", s.mapped);
  if (s.resident_known)
    bytes.Field("untouched", s.untouched).Field("hugepage_backed", s.hugepage_backed);
  bytes.End();
}

void WritePageHeap(const PageHeapStats& p, TextSink& sink) {
  Object heap(sink);
  heap.Name("filler");
  Object(sink)
      .Field("hugepages", p.filler.hugepages)
      .Field("used_bytes", p.filler.used)
      .Field("free_bytes", p.filler.free)
      .Field("released_bytes", p.filler.released)
      .Field("in_use_released_bytes", p.filler.in_use_released)
      .Field("regular", p.filler.regular)
      .Field("donated", p.filler.donated)
      .Field("partly_released", p.filler.partly_released)
      .Field("released", p.filler.all_released)
      .Field("dense", p.filler.dense)
      .Field("sparse", p.filler.sparse)
      .End();
  heap.Name("cache");
  Object(sink)
      .Field("hugepages", p.cache.hugepages)
      .Field("limit", p.cache.limit)
      .Field("hits", p.cache.hits)
      .Field("misses", p.cache.misses)
      .End();
  heap.Name("region");
  Object(sink)
      .Field("regions", p.region.regions)
      .Field("used_bytes", p.region.used)
      .Field("free_bytes", p.region.free)
      .Field("released_bytes", p.region.released)
      .End();
  heap.Name("allocator");
  Object(sink)
      .Field("mapped_bytes", p.allocator.mapped)
      .Field("free_bytes", p.allocator.free)
      .End();
  heap.Field("used_bytes", p.used)
      .Field("free_backed_bytes", p.free_backed)
      .Field("demand_bytes", p.demand)
      .Field("released_total_bytes", p.released_total)
      .Field("collapsed_total", p.collapsed_total)
      .Field("first_touch_ns", p.first_touch_ns)
      .Field("cold_frames", p.cold_frames)
      .Field("thin_use", p.thin_use)
      .End();
}

void WriteClasses(const HeapStats& s, TextSink& sink) {
  Array rows(sink);
  for (size_t c = 1; c < kNumClasses; ++c) {
    const ClassStats& k = s.classes[c];
    if (k.spans == 0 && k.hits == 0 && k.misses_alloc == 0) continue;
    const ClassInfo& info = InfoOf(static_cast<SizeClass>(c));
    rows.Row()
        .Field("class", c)
        .Field("size", uint64_t{info.size})
        .Field("lasting", IsLasting(static_cast<SizeClass>(c)))
        .Field("pages", uint64_t{info.pages})
        .Field("objects", uint64_t{info.objects})
        .Field("spans", k.spans)
        .Field("span_bytes", k.pages * kPageSize)
        .Field("live", k.live)
        .Field("cpu", k.cpu)
        .Field("transfer", k.transfer)
        .Field("central", k.central)
        .Field("hits", k.hits)
        .Field("misses", k.misses_alloc + k.misses_free)
        .Field("misses_alloc", k.misses_alloc)
        .Field("misses_free", k.misses_free)
        .Field("spans_taken", k.spans_taken)
        .Field("spans_returned", k.spans_returned)
        .Field("observed", k.observed)
        .Field("returned", k.returned)
        .End();
  }
  rows.End();
}

void WriteCpuCaches(const HeapStats& s, TextSink& sink) {
  Array rows(sink);
  for (size_t i = 0; s.cpu_cache_row != nullptr && i < s.max_vcpus; ++i) {
    CpuCacheRow row;
    if (!s.cpu_cache_row(i, row)) continue;
    rows.Row()
        .Field("vcpu", row.vcpu)
        .Field("capacity", row.capacity)
        .Field("used", row.used)
        .Field("limit", row.limit)
        .Field("misses_alloc", row.misses_alloc)
        .Field("misses_free", row.misses_free)
        .Field("resizes", row.resizes)
        .End();
  }
  rows.End();
}

void WriteTransferDomains(const HeapStats& s, TextSink& sink) {
  Array rows(sink);
  for (size_t i = 0; s.transfer_domain_row != nullptr && i < s.transfer_domains; ++i) {
    TransferDomainRow row;
    s.transfer_domain_row(i, row);
    rows.Row()
        .Field("domain", row.domain)
        .Field("cpus", row.cpus)
        .Field("objects", row.objects)
        .Field("bytes", row.bytes)
        .Field("active", row.active)
        .End();
  }
  rows.End();
}

void WriteCache(const HeapStats& s, TextSink& sink) {
  Object(sink)
      .Field("hits", s.hits)
      .Field("misses_alloc", s.misses_alloc)
      .Field("misses_free", s.misses_free)
      .Field("vcpus", s.vcpus)
      .Field("limit_bytes", s.cpu_cache_total)
      .Field("unassigned_bytes", s.cpu_cache_unassigned)
      .End();
}

void WriteBackground(const HeapStats& s, TextSink& sink) {
  Object(sink)
      .Field("running", s.background_running)
      .Field("ticks", s.background_ticks)
      .Field("released_bytes", s.background_released)
      .End();
}

void WriteLimits(const LimitStats& l, TextSink& sink) {
  Object(sink)
      .Field("cgroup_limit", l.cgroup_limit)
      .Field("cgroup_usage", l.cgroup_usage)
      .Field("cpu_quota", l.cpu_quota)
      .Field("soft_limit", l.soft_limit)
      .Field("hard_limit", l.hard_limit)
      .Field("soft_hits", l.soft_hits)
      .Field("hard_failures", l.hard_failures)
      .End();
}

void WritePrice(const PriceStats& p, TextSink& sink) {
  Object(sink)
      .Field("on", p.on)
      .Field("weight", p.weight)
      .Field("seconds_a_mib", p.seconds_a_mib)
      .Field("supply_bytes", p.supply)
      .Field("left_bytes", p.left)
      .Field("pressure", p.pressure)
      .Field("debt_bytes", p.debt)
      .Field("waiting_threads", p.waiting)
      .Field("waits", p.waits)
      .Field("waited_ns", p.waited_ns)
      .Field("fork_waits", p.fork_waits)
      .Field("fork_waited_ns", p.fork_waited_ns)
      .End();
}

void WriteSampler(const SamplerStats& s, TextSink& sink) {
  Object(sink)
      .Field("interval", s.interval)
      .Field("samples", s.samples)
      .Field("live_samples", s.live_samples)
      .Field("live_bytes_estimate", s.live_bytes_estimate)
      .Field("peak_bytes_estimate", s.peak_bytes_estimate)
      .Field("contexts", s.contexts)
      .Field("dropped", s.dropped)
      .End();
}

void WriteGuard(const GuardStats& g, TextSink& sink) {
  Object(sink)
      .Field("every", g.every)
      .Field("slots", g.slots)
      .Field("taken", g.taken)
      .Field("live", g.live)
      .Field("live_bytes", g.live_bytes)
      .Field("errors", g.errors)
      .End();
}

void WritePredictions(const PredictionStats& p, TextSink& sink) {
  Object(sink)
      .Field("places", p.places)
      .Field("changes", p.changes)
      .Field("rounds", p.rounds)
      .Field("lasting_live", p.lasting_live)
      .Field("bytes", p.bytes)
      .Field("model_asked", p.model_asked)
      .Field("model_hits", p.model_hits)
      .Field("model_misses", p.model_misses)
      .Field("model_disagreements", p.model_disagreements)
      .End();
}

void WriteGroups(const GroupStats& g, TextSink& sink) {
  Object(sink)
      .Field("contexts", g.contexts)
      .Field("hot_live", g.hot)
      .Field("cold_live", g.cold)
      .Field("contexts_live", g.in_contexts)
      .Field("fullest_context_live", g.fullest_context)
      .End();
}

void WriteHotness(const HotnessStats& h, TextSink& sink) {
  Object(sink)
      .Field("domains", h.domains)
      .Field("new_objects", h.fresh.objects)
      .Field("new_bytes", h.fresh.bytes)
      .Field("hot_objects", h.hot.objects)
      .Field("hot_bytes", h.hot.bytes)
      .Field("cold_objects", h.cold.objects)
      .Field("cold_bytes", h.cold.bytes)
      .Field("rounds", h.rounds)
      .Field("moves", h.moves)
      .Field("moved_bytes", h.moved_bytes)
      .Field("promotions", h.promotions)
      .Field("demotions", h.demotions)
      .Field("aborted_in_use", h.aborted_in_use)
      .Field("aborted_used", h.aborted_used)
      .Field("aborted_no_memory", h.aborted_no_memory)
      .Field("aborted_near_limit", h.aborted_near_limit)
      .Field("epochs_given_up", h.epochs_given_up)
      .Field("paged_out_bytes", h.paged_out_bytes)
      .Field("collector_ns", h.collector_ns)
      .Field("cold_after", h.cold_after)
      .Field("promotion_rate", h.promotion_rate)
      .Field("utilization", h.utilization)
      .End();
}

}  // namespace

void WriteJson(const HeapStats& s, TextSink& sink, OccupancyWriter occupancy) {
  Object all(sink);
  all.Field("strata", STRATA_VERSION)
      .Field("pid", static_cast<uint64_t>(s.pid))
      .Field("cache_mode", s.cache_mode)
      .Field("rseq", s.rseq)
      .Field("thp_mode", s.thp_mode);
  all.Name("bytes");
  WriteBytes(s, sink);
  all.Field("resident_known", s.resident_known);
  if (s.resident_known) all.Field("coverage", s.coverage());
  all.Name("page_heap");
  WritePageHeap(s.page_heap, sink);
  all.Name("cache");
  WriteCache(s, sink);
  all.Name("cpu_caches");
  WriteCpuCaches(s, sink);
  all.Name("transfer_domains");
  WriteTransferDomains(s, sink);
  all.Name("background");
  WriteBackground(s, sink);
  all.Name("limits");
  WriteLimits(s.limits, sink);
  all.Name("price");
  WritePrice(s.price, sink);
  all.Name("sampler");
  WriteSampler(s.sampler, sink);
  all.Name("guard");
  WriteGuard(s.guard, sink);
  all.Name("predictions");
  WritePredictions(s.predictions, sink);
  all.Name("groups");
  WriteGroups(s.groups, sink);
  all.Name("hotness");
  WriteHotness(s.hotness, sink);
  all.Name("classes");
  WriteClasses(s, sink);
  all.Name("hugepage_occupancy").Char('[');
  occupancy(sink);
  sink.Char(']');
  all.End();
  sink.Char('\n');
}

}  // namespace strata
