// The statistics as Prometheus text. See stats_prometheus.h.
#include "profile/stats_prometheus.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/version.h"

namespace strata {
namespace {

using S = const HeapStats&;
using C = const ClassStats&;
using D = const TransferDomainRow&;
using V = MetricValue;

constexpr MetricRow kTable[] = {
    {"strata_live_bytes", "gauge", "bytes", "Asked for by the program and not freed.",
     [](S s) -> V { return s.live; }, nullptr},
    {"strata_internal_slack_bytes", "gauge", "bytes",
     "Size of live blocks minus what was asked for.", [](S s) -> V { return s.internal_slack; },
     nullptr},
    {"strata_cpu_cache_bytes", "gauge", "bytes", "Free objects in per-CPU or per-thread caches.",
     [](S s) -> V { return s.cpu_cache; }, nullptr},
    {"strata_transfer_cache_bytes", "gauge", "bytes", "Free objects in the transfer caches.",
     [](S s) -> V { return s.transfer_cache; }, nullptr},
    {"strata_central_free_bytes", "gauge", "bytes", "Free objects in spans in use: fragmentation.",
     [](S s) -> V { return s.central_free; }, nullptr},
    {"strata_page_heap_free_bytes", "gauge", "bytes", "Resident memory in no span and no block.",
     [](S s) -> V { return s.page_heap_free; }, nullptr},
    {"strata_metadata_bytes", "gauge", "bytes", "Resident tables of the allocator.",
     [](S s) -> V { return s.metadata; }, nullptr},
    {"strata_untouched_bytes", "gauge", "bytes", "In use but never written: not in memory.",
     [](S s) -> V { return s.resident_known ? s.untouched : V(); }, nullptr},
    {"strata_resident_bytes", "gauge", "bytes", "Heap and tables that the kernel holds in memory.",
     [](S s) -> V { return s.resident(); }, nullptr},
    {"strata_released_bytes", "gauge", "bytes", "Free memory that the kernel does not hold.",
     [](S s) -> V { return s.released; }, nullptr},
    {"strata_mapped_bytes", "gauge", "bytes", "Address space mapped for the heap.",
     [](S s) -> V { return s.mapped; }, nullptr},
    {"strata_hugepage_backed_bytes", "gauge", "bytes", "Heap on hugepages.",
     [](S s) -> V { return s.resident_known ? s.hugepage_backed : V(); }, nullptr},
    {"strata_hugepage_coverage_ratio", "gauge", "ratio", "Share of the resident heap on hugepages.",
     [](S s) -> V { return s.resident_known ? s.coverage() : V(); }, nullptr},
    {"strata_demand_bytes", "gauge", "bytes", "What the program is expected to want soon.",
     [](S s) -> V { return s.page_heap.demand; }, nullptr},
    {"strata_page_heap_used_bytes", "gauge", "bytes", "In spans and large blocks.",
     [](S s) -> V { return s.page_heap.used; }, nullptr},
    {"strata_filler_hugepages", "gauge", "hugepages", "Hugepages that hold spans.",
     [](S s) -> V { return s.page_heap.filler.hugepages; }, nullptr},
    {"strata_broken_hugepages", "gauge", "hugepages",
     "Hugepages that gave a part back, or began as single pages.",
     [](S s) -> V { return s.page_heap.filler.partly_released + s.page_heap.filler.all_released; },
     nullptr},
    {"strata_cached_hugepages", "gauge", "hugepages", "Free whole hugepages kept.",
     [](S s) -> V { return s.page_heap.cache.hugepages; }, nullptr},
    {"strata_vcpus", "gauge", "vcpus", "Virtual CPUs ever used.", [](S s) -> V { return s.vcpus; },
     nullptr},
    {"strata_cache_hits_total", "counter", "hits", "Allocations that the front cache served.",
     [](S s) -> V { return s.hits; }, nullptr},
    {"strata_cache_alloc_misses_total", "counter", "misses",
     "Allocations that found the front cache empty.", [](S s) -> V { return s.misses_alloc; },
     nullptr},
    {"strata_cache_free_misses_total", "counter", "misses",
     "Frees that found the front cache full.", [](S s) -> V { return s.misses_free; }, nullptr},
    {"strata_returned_bytes_total", "counter", "bytes", "Ever given back to the kernel.",
     [](S s) -> V { return s.page_heap.released_total; }, nullptr},
    {"strata_collapsed_hugepages_total", "counter", "hugepages", "Hugepages ever rebuilt.",
     [](S s) -> V { return s.page_heap.collapsed_total; }, nullptr},
    {"strata_background_ticks_total", "counter", "ticks", "Rounds of the background thread.",
     [](S s) -> V { return s.background_ticks; }, nullptr},
    {"strata_cpu_cache_limit_bytes", "gauge", "bytes", "What all CPUs' caches may hold.",
     [](S s) -> V { return s.cpu_cache_total; }, nullptr},
    {"strata_cpu_cache_unassigned_bytes", "gauge", "bytes",
     "Room of CPU caches in no cache's limit.", [](S s) -> V { return s.cpu_cache_unassigned; },
     nullptr},
    {"strata_cgroup_limit_bytes", "gauge", "bytes",
     "Memory limit of the cgroup or parent with the least room; 0: none.",
     [](S s) -> V { return s.limits.cgroup_limit; }, nullptr},
    {"strata_cgroup_usage_bytes", "gauge", "bytes", "What this cgroup uses.",
     [](S s) -> V { return s.limits.cgroup_usage; }, nullptr},
    {"strata_cpu_quota_cpus", "gauge", "cpus", "The cgroup's CPU quota; 0: none.",
     [](S s) -> V { return s.limits.cpu_quota; }, nullptr},
    {"strata_soft_limit_bytes", "gauge", "bytes",
     "From here on free memory goes back at once; 0: none.",
     [](S s) -> V { return s.limits.soft_limit; }, nullptr},
    {"strata_heap_limit_bytes", "gauge", "bytes", "Beyond this malloc returns null; 0: none.",
     [](S s) -> V { return s.limits.hard_limit; }, nullptr},
    {"strata_soft_limit_hits_total", "counter", "hits", "Times the soft limit was met.",
     [](S s) -> V { return s.limits.soft_hits; }, nullptr},
    {"strata_heap_limit_failures_total", "counter", "failures",
     "Allocations that the heap limit refused.", [](S s) -> V { return s.limits.hard_failures; },
     nullptr},
    {"strata_price_seconds_per_mebibyte", "gauge", "", "What a MiB of growth costs; 0: nothing.",
     [](S s) -> V { return s.price.seconds_a_mib; }, nullptr},
    {"strata_price_debt_bytes", "gauge", "bytes", "Growth not paid for yet.",
     [](S s) -> V { return s.price.debt; }, nullptr},
    {"strata_price_waiting_threads", "gauge", "threads", "Threads that wait to grow.",
     [](S s) -> V { return s.price.waiting; }, nullptr},
    {"strata_price_waits_total", "counter", "waits", "Times growth had to wait.",
     [](S s) -> V { return s.price.waits; }, nullptr},
    {"strata_price_waited_seconds_total", "counter", "seconds", "How long it waited.",
     [](S s) -> V { return static_cast<double>(s.price.waited_ns) * 1e-9; }, nullptr},
    {"strata_price_fork_waited_seconds_total", "counter", "seconds", "How long forks waited.",
     [](S s) -> V { return static_cast<double>(s.price.fork_waited_ns) * 1e-9; }, nullptr},
    {"strata_sample_interval_bytes", "gauge", "bytes", "Mean bytes between two samples; 0: off.",
     [](S s) -> V { return s.sampler.interval; }, nullptr},
    {"strata_live_samples", "gauge", "samples", "Samples that are alive.",
     [](S s) -> V { return s.sampler.live_samples; }, nullptr},
    {"strata_sampled_live_bytes", "gauge", "bytes", "Live bytes, estimated by the samples.",
     [](S s) -> V { return s.sampler.live_bytes_estimate; }, nullptr},
    {"strata_sampled_peak_bytes", "gauge", "bytes", "Highest live bytes by the samples.",
     [](S s) -> V { return s.sampler.peak_bytes_estimate; }, nullptr},
    {"strata_sampled_stacks", "gauge", "stacks", "Different stacks among the samples.",
     [](S s) -> V { return s.sampler.contexts; }, nullptr},
    {"strata_samples_total", "counter", "samples", "Samples ever taken.",
     [](S s) -> V { return s.sampler.samples; }, nullptr},
    {"strata_dropped_samples_total", "counter", "samples", "Samples there was no room for.",
     [](S s) -> V { return s.sampler.dropped; }, nullptr},
    {"strata_guarded_blocks_total", "counter", "blocks", "Blocks ever guarded.",
     [](S s) -> V { return s.guard.taken; }, nullptr},
    {"strata_guarded_live_blocks", "gauge", "blocks", "Guarded blocks that are alive.",
     [](S s) -> V { return s.guard.live; }, nullptr},
    {"strata_guard_slots", "gauge", "slots", "Places for guarded blocks.",
     [](S s) -> V { return s.guard.slots; }, nullptr},
    {"strata_memory_errors_total", "counter", "errors",
     "Memory errors noticed, under STRATA_ON_ERROR=ignore.",
     [](S s) -> V { return s.guard.errors; }, nullptr},
    {"strata_predicted_places", "gauge", "places", "Places in the program with a prediction.",
     [](S s) -> V { return s.predictions.places; }, nullptr},
    {"strata_lasting_live_bytes", "gauge", "bytes", "Live objects among those that last.",
     [](S s) -> V { return s.predictions.lasting_live; }, nullptr},
    {"strata_prediction_changes_total", "counter", "changes", "Changes of predictions.",
     [](S s) -> V { return s.predictions.changes; }, nullptr},
    {"strata_model_asked_stacks_total", "counter", "stacks", "Stacks the model was asked about.",
     [](S s) -> V { return s.predictions.model_asked; }, nullptr},
    {"strata_model_disagreeing_stacks", "gauge", "stacks", "Stacks that proved the model wrong.",
     [](S s) -> V { return s.predictions.model_disagreements; }, nullptr},
    {"strata_hinted_hot_bytes", "gauge", "bytes",
     "Live objects that operator new was told are hot.", [](S s) -> V { return s.groups.hot; },
     nullptr},
    {"strata_hinted_cold_bytes", "gauge", "bytes",
     "Live objects that operator new was told are cold.", [](S s) -> V { return s.groups.cold; },
     nullptr},
    {"strata_context_bytes", "gauge", "bytes", "Live objects in groups by calling context.",
     [](S s) -> V { return s.groups.in_contexts; }, nullptr},
    {"strata_hot_domains", "gauge", "domains", "Domains of objects that move.",
     [](S s) -> V { return s.hotness.domains; }, nullptr},
    {"strata_new_objects", "gauge", "objects", "Moving objects in the heap of new ones.",
     [](S s) -> V { return s.hotness.fresh.objects; }, nullptr},
    {"strata_hot_objects", "gauge", "objects", "Moving objects in the hot heap.",
     [](S s) -> V { return s.hotness.hot.objects; }, nullptr},
    {"strata_cold_objects", "gauge", "objects", "Moving objects in the cold heap.",
     [](S s) -> V { return s.hotness.cold.objects; }, nullptr},
    {"strata_new_object_bytes", "gauge", "bytes", "Moving objects in the heap of new ones.",
     [](S s) -> V { return s.hotness.fresh.bytes; }, nullptr},
    {"strata_hot_object_bytes", "gauge", "bytes", "Moving objects in the hot heap.",
     [](S s) -> V { return s.hotness.hot.bytes; }, nullptr},
    {"strata_cold_object_bytes", "gauge", "bytes", "Moving objects in the cold heap.",
     [](S s) -> V { return s.hotness.cold.bytes; }, nullptr},
    {"strata_hot_moves_total", "counter", "moves", "Objects moved.",
     [](S s) -> V { return s.hotness.moves; }, nullptr},
    {"strata_hot_aborted_moves_total", "counter", "moves",
     "Moves that failed: the sum of the next four.", [](S s) -> V { return s.hotness.aborted(); },
     nullptr},
    {"strata_hot_in_use_moves_total", "counter", "moves", "Failed: an operation used the object.",
     [](S s) -> V { return s.hotness.aborted_in_use; }, nullptr},
    {"strata_hot_used_moves_total", "counter", "moves",
     "Failed: the object was used while it was copied.",
     [](S s) -> V { return s.hotness.aborted_used; }, nullptr},
    {"strata_hot_no_memory_moves_total", "counter", "moves", "Failed: no memory.",
     [](S s) -> V { return s.hotness.aborted_no_memory; }, nullptr},
    {"strata_hot_near_limit_moves_total", "counter", "moves", "Failed: a memory limit is near.",
     [](S s) -> V { return s.hotness.aborted_near_limit; }, nullptr},
    {"strata_hot_given_up_epochs_total", "counter", "epochs",
     "Rounds without moves, as an operation did not end.",
     [](S s) -> V { return s.hotness.epochs_given_up; }, nullptr},
    {"strata_hot_collector_seconds_total", "counter", "seconds", "CPU time of the collector.",
     [](S s) -> V { return static_cast<double>(s.hotness.collector_ns) * 1e-9; }, nullptr},
    {"strata_hot_paged_out_bytes_total", "counter", "bytes", "Cold objects handed to the kernel.",
     [](S s) -> V { return s.hotness.paged_out_bytes; }, nullptr},
    {"strata_hot_promotion_ratio", "gauge", "ratio", "Share of used bytes found in the cold heap.",
     [](S s) -> V { return s.hotness.promotion_rate; }, nullptr},
    {"strata_hot_cold_after_windows", "gauge", "windows",
     "Windows without use until an object is cold.", [](S s) -> V { return s.hotness.cold_after; },
     nullptr},
    {"strata_hot_utilization_ratio", "gauge", "ratio", "Used bytes of the pages used, estimated.",
     [](S s) -> V { return s.hotness.utilization; }, nullptr},
    {"strata_class_live_objects", "gauge", "objects", "Live objects of a size class.", nullptr,
     [](C c) -> V { return c.live; }},
    {"strata_class_free_objects", "gauge", "objects", "Free objects of a size class.", nullptr,
     [](C c) -> V { return c.cpu + c.transfer + c.central; }},
    {"strata_class_spans", "gauge", "spans", "Spans of a size class.", nullptr,
     [](C c) -> V { return c.spans; }},
    {"strata_class_cache_misses_total", "counter", "misses", "Cache misses of a size class.",
     nullptr, [](C c) -> V { return c.misses_alloc + c.misses_free; }},
    {"strata_class_taken_spans_total", "counter", "spans",
     "Spans that a size class took from the page heap.", nullptr,
     [](C c) -> V { return c.spans_taken; }},
    {"strata_class_returned_spans_total", "counter", "spans", "Spans that a size class gave back.",
     nullptr, [](C c) -> V { return c.spans_returned; }},
    {"strata_transfer_domain_bytes", "gauge", "bytes",
     "Free objects in the transfer cache of one last-level cache.", nullptr, nullptr,
     [](D d) -> V { return d.bytes; }},
    {"strata_transfer_domain_cpus", "gauge", "cpus", "CPUs that share one last-level cache.",
     nullptr, nullptr, [](D d) -> V { return d.cpus; }},
};

// The text format knows three escapes. What is no printable ASCII becomes a question mark. A long
// name is cut, because every sample carries it.
void LabelText(const char* text, TextSink& sink) {
  constexpr int kMost = 63;
  for (int i = 0; i < kMost && *text != '\0'; ++i, ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') {
      sink.Char('\\').Char(*text);
    } else {
      sink.Char(c < 0x20 || c >= 0x7f ? '?' : *text);
    }
  }
}

class Writer {
 public:
  Writer(const HeapStats& stats, const char* command, TextSink& sink)
      : stats_(stats), command_(command), sink_(sink) {}

  void Head(const char* name, const char* type, const char* help) {
    sink_.Text("# HELP ").Text(name).Char(' ').Text(help).Char('\n');
    sink_.Text("# TYPE ").Text(name).Char(' ').Text(type).Char('\n');
  }

  // The name and the labels that every sample has; the caller adds its own and closes.
  TextSink& Sample(const char* name) {
    sink_.Text(name).Text("{command=\"");
    LabelText(command_, sink_);
    return sink_.Text("\",pid=\"").Number(static_cast<uint64_t>(stats_.pid)).Char('"');
  }

  void Value(MetricValue value) {
    sink_.Text("} ");
    if (value.is_ratio) {
      sink_.Fraction(value.ratio);
    } else {
      sink_.Number(value.count);
    }
    sink_.Char('\n');
  }

  void Row(const MetricRow& row) {
    Head(row.name, row.type, row.help);
    if (row.of_process != nullptr) {
      const MetricValue value = row.of_process(stats_);
      if (!value.is_known) return;
      Sample(row.name);
      return Value(value);
    }
    if (row.of_domain != nullptr) return Domains(row);
    for (size_t c = 1; c < kNumClasses; ++c) {
      // A counter stays when the last span has gone back.
      if (stats_.classes[c].spans == 0 && stats_.classes[c].spans_taken == 0) continue;
      Sample(row.name).Text(",size=\"").Number(InfoOf(static_cast<SizeClass>(c)).size).Char('"');
      if (IsLasting(static_cast<SizeClass>(c))) sink_.Text(",lasting=\"true\"");
      Value(row.of_class(stats_.classes[c]));
    }
  }

  void Domains(const MetricRow& row) {
    for (size_t i = 0; stats_.transfer_domain_row != nullptr && i < stats_.transfer_domains; ++i) {
      TransferDomainRow domain;
      stats_.transfer_domain_row(i, domain);
      Sample(row.name).Text(",domain=\"").Number(domain.domain).Char('"');
      Value(row.of_domain(domain));
    }
  }

  void Info() {
    Head("strata_info", "gauge", "Always 1; the labels tell the version and what was found.");
    Sample("strata_info")
        .Text(",version=\"" STRATA_VERSION "\",cache_mode=\"")
        .Text(stats_.cache_mode)
        .Text("\",thp_mode=\"")
        .Text(stats_.thp_mode)
        .Text(stats_.resident_known ? "\",resident_known=\"true\"" : "\",resident_known=\"false\"");
    Value(uint64_t{1});
  }

 private:
  const HeapStats& stats_;
  const char* command_;
  TextSink& sink_;
};

STRATA_NOINLINE void VisitRow(MetricVisitor visit, void* state, const char* name, const char* type,
                              const char* unit, const char* help,
                              decltype(MetricRow::of_process) of_process,
                              decltype(MetricRow::of_class) of_class,
                              decltype(MetricRow::of_domain) of_domain) {
  visit(state, {name, type, unit, help, of_process, of_class, of_domain});
}

}  // namespace

// The rows are in the code, not in a table: its pointers would have to be filled in as any program
// starts, in pages of its own.
void VisitMetrics(MetricVisitor visit, void* state) {
  const auto visit_row = [&]<size_t... kRow>(std::index_sequence<kRow...>) {
    (VisitRow(visit, state, kTable[kRow].name, kTable[kRow].type, kTable[kRow].unit,
              kTable[kRow].help, kTable[kRow].of_process, kTable[kRow].of_class,
              kTable[kRow].of_domain),
     ...);
  };
  visit_row(std::make_index_sequence<std::size(kTable)>());
}

void WritePrometheus(const HeapStats& stats, const char* command, TextSink& sink) {
  Writer writer(stats, command, sink);
  writer.Info();
  VisitMetrics([](void* w, const MetricRow& row) { static_cast<Writer*>(w)->Row(row); }, &writer);
}

}  // namespace strata
