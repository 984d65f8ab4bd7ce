// The statistics for people, as STRATA_STATS=exit and malloc_stats print them. Sits in profile.
#include "base/version.h"
#include "profile/heap_stats.h"

namespace strata {
namespace {

void Line(TextSink& sink, const char* name, size_t bytes, const char* note) {
  char size[32];
  TextSink(size, sizeof(size)).Size(bytes).Finish();
  sink.Text("  ").Padded(name, 18).Padded(size, 12).Text(note).Char('\n');
}

void WriteClassTable(const HeapStats& s, TextSink& sink) {
  sink.Text("  size      spans     live      cached    free      hits        misses\n");
  const auto cell = [&](uint64_t n, size_t width) {
    char text[24];
    TextSink cell_sink(text, sizeof(text));
    cell_sink.Number(n).Finish();
    sink.Padded(text, width);
  };
  for (size_t c = 1; c < kNumClasses; ++c) {
    const ClassStats& k = s.classes[c];
    if (k.spans == 0) continue;
    sink.Text("  ");
    cell(InfoOf(static_cast<SizeClass>(c)).size, 10);
    cell(k.spans, 10);
    cell(k.live, 10);
    cell(k.cpu + k.transfer, 10);
    cell(k.central, 10);
    cell(k.hits, 12);
    cell(k.misses_alloc + k.misses_free, 0);
    sink.Text(IsLasting(static_cast<SizeClass>(c)) ? "  lasting\n" : "\n");
  }
}

void WritePageHeap(const PageHeapStats& p, TextSink& sink) {
  sink.Text("  filler            ")
      .Number(p.filler.hugepages)
      .Text(" hugepages: ")
      .Size(p.filler.used)
      .Text(" used, ")
      .Size(p.filler.free)
      .Text(" free, ")
      .Size(p.filler.released)
      .Text(" released\n");
  sink.Text("  huge cache        ")
      .Number(p.cache.hugepages)
      .Text(" hugepages of ")
      .Number(p.cache.limit)
      .Text("; regions ")
      .Number(p.region.regions)
      .Text("; large ")
      .Size(p.large)
      .Char('\n');
}

// How unequal the caches are: the limits of the smallest and the largest, and who changed them.
void WriteTiers(const HeapStats& s, TextSink& sink) {
  size_t caches = 0, least = SIZE_MAX, most = 0, used = 0;
  uint64_t resizes = 0;
  for (size_t i = 0; s.cpu_cache_row != nullptr && i < s.max_vcpus; ++i) {
    CpuCacheRow row;
    if (!s.cpu_cache_row(i, row)) continue;
    ++caches;
    least = row.limit < least ? row.limit : least;
    most = row.limit > most ? row.limit : most;
    used += row.used;
    resizes += row.resizes;
  }
  if (caches != 0) {
    sink.Text("  per-CPU caches    ").Number(caches).Text(": ").Size(used).Text(" of ");
    sink.Size(s.cpu_cache_total).Text(", limits ").Size(least).Text(" to ");
    sink.Size(most).Text(", ").Number(resizes).Text(" resizes\n");
  }
  size_t active = 0, bytes = 0;
  for (size_t i = 0; s.transfer_domain_row != nullptr && i < s.transfer_domains; ++i) {
    TransferDomainRow row;
    s.transfer_domain_row(i, row);
    active += row.active;
    bytes += row.bytes;
  }
  if (s.transfer_domain_row == nullptr || s.transfer_domains == 0) return;
  sink.Text("  cache domains     ").Number(s.transfer_domains).Text(", active ").Number(active);
  sink.Text(", ").Size(bytes).Text(" in their transfer caches\n");
}

void WriteHotness(const HotnessStats& h, TextSink& sink) {
  if (h.domains == 0 && h.rounds == 0) return;
  sink.Text("  moving objects    new ").Size(h.fresh.bytes).Text(", hot ");
  sink.Size(h.hot.bytes).Text(", cold ").Size(h.cold.bytes).Text("; ");
  sink.Number(h.moves).Text(" moves, ").Number(h.aborted()).Text(" aborted, ");
  sink.Fraction(static_cast<double>(h.collector_ns) * 1e-9).Text(" s of CPU\n");
  if (h.domains == 0) return;  // the rest is of now
  sink.Text("  moved apart       ").Percent(h.utilization).Text(" of the pages used; cold after ");
  sink.Number(h.cold_after).Text(" windows; promotion rate ").Percent(h.promotion_rate).Char('\n');
}

void WriteBytes(const HeapStats& s, TextSink& sink) {
  Line(sink, "resident", s.resident(),
       s.resident_known ? "= live + slack + caches + free + metadata - untouched"
                        : "at most: the kernel can't be asked here");
  Line(sink, "live", s.live, "the program's objects");
  Line(sink, "slack", s.internal_slack, "rounding up to size classes");
  Line(sink, "caches", s.caches(), "free objects kept at hand");
  Line(sink, "free", s.free_resident(), "free objects and pages still in memory");
  Line(sink, "metadata", s.metadata, "the allocator's own tables");
  if (s.resident_known)
    Line(sink, "untouched", s.untouched, "in use but never written: not in memory");
  Line(sink, "released", s.released, "given back, or never used: not in memory");
  Line(sink, "mapped", s.mapped, "addresses of the heap");
}

void WriteSampler(const SamplerStats& s, TextSink& sink) {
  sink.Text("  sampler           one in ").Size(s.interval).Text(", samples ").Number(s.samples);
  sink.Text(", live ").Number(s.live_samples).Text(", stacks ").Number(s.contexts);
  sink.Text(", dropped ").Number(s.dropped).Char('\n');
}

void WriteGuard(const GuardStats& g, TextSink& sink) {
  if (g.taken != 0) {
    sink.Text("  guarded blocks    ").Number(g.taken).Text(", live ").Number(g.live);
    sink.Text(", slots ").Number(g.slots).Char('\n');
  }
  if (g.errors != 0) sink.Text("  memory errors     ").Number(g.errors).Text(", ignored\n");
}

void WriteGroups(const GroupStats& g, TextSink& sink) {
  if (g.hot + g.cold != 0)
    sink.Text("  hinted            ").Size(g.hot).Text(" hot, ").Size(g.cold).Text(" cold\n");
  if (g.contexts == 0) return;
  sink.Text("  contexts          ").Size(g.in_contexts).Text(" in ").Number(g.contexts);
  sink.Text(" groups, ").Size(g.fullest_context).Text(" in the fullest\n");
}

void WritePlaces(const PredictionStats& p, TextSink& sink) {
  if (p.rounds == 0) return;
  sink.Text("  predictions       ").Number(p.places).Text(" places, ").Size(p.lasting_live);
  sink.Text(" live among what lasts, tables ").Size(p.bytes).Char('\n');
}

void WriteModel(const PredictionStats& p, TextSink& sink) {
  if (p.model_asked == 0) return;
  sink.Text("  model             asked about ").Number(p.model_asked).Text(" stacks, wrong about ");
  sink.Number(p.model_disagreements).Text("; had answered for ").Number(p.model_hits);
  sink.Text(" of ").Number(p.model_hits + p.model_misses).Text(" samples\n");
}

}  // namespace

void WriteText(const HeapStats& s, TextSink& sink) {
  sink.Text("strata ").Text(STRATA_VERSION).Text(", pid ").Number(static_cast<uint64_t>(s.pid));
  sink.Text("\n  cache mode        ").Text(s.cache_mode).Text(", rseq ").Text(s.rseq);
  sink.Text(", THP ").Text(s.thp_mode).Char('\n');
  WriteBytes(s, sink);
  if (s.resident_known) {
    sink.Text("  coverage          ").Percent(s.coverage());
    sink.Text(" of the resident heap on hugepages\n");
  }
  sink.Text("  cache hits        ").Number(s.hits).Text(", misses ").Number(s.misses_alloc);
  sink.Text(" (malloc) ").Number(s.misses_free).Text(" (free), vCPUs ").Number(s.vcpus).Char('\n');
  WriteTiers(s, sink);
  WritePageHeap(s.page_heap, sink);
  sink.Text("  background        ").Text(s.background_running ? "running" : "not running");
  sink.Text(", ticks ").Number(s.background_ticks);
  sink.Text(", gave back ").Size(s.page_heap.released_total).Char('\n');
  WriteSampler(s.sampler, sink);
  WriteGuard(s.guard, sink);
  WritePlaces(s.predictions, sink);
  WriteGroups(s.groups, sink);
  WriteModel(s.predictions, sink);
  WriteHotness(s.hotness, sink);
  WriteClassTable(s, sink);
}

}  // namespace strata
