// The exporters of the statistics: JSON that parses and text that reads, also when every number is
// zero or as large as it can be.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "json_check.h"
#include "profile/heap_stats.h"

namespace strata::test {
namespace {

void NoOccupancy(TextSink&) {}
void SomeOccupancy(TextSink& sink) { sink.Text("[1,2,\"r\"],[256,256,\"L\"]"); }

std::string Json(const HeapStats& s, OccupancyWriter occupancy = NoOccupancy) {
  std::vector<char> text(256 << 10);
  TextSink sink(text.data(), text.size());
  WriteJson(s, sink, occupancy);
  EXPECT_LT(sink.Finish(), text.size());
  return text.data();
}
std::string Text(const HeapStats& s) {
  std::vector<char> text(256 << 10);
  TextSink sink(text.data(), text.size());
  WriteText(s, sink);
  EXPECT_LT(sink.Finish(), text.size());
  return text.data();
}

// Every number at its largest.
std::unique_ptr<HeapStats> Extreme() {
  auto s = std::make_unique<HeapStats>();
  const HeapStats plain;
  static_assert(std::is_trivially_copyable_v<HeapStats>);
  memset(static_cast<void*>(s.get()), 0xff, sizeof(*s));
  s->cache_mode = plain.cache_mode;
  s->rseq = plain.rseq;
  s->thp_mode = plain.thp_mode;
  s->pid = 0x7fffffff;
  s->cpu_cache_row = [](size_t vcpu, CpuCacheRow& out) {
    memset(static_cast<void*>(&out), 0xff, sizeof(out));
    return vcpu < 2;
  };
  s->max_vcpus = 2000;
  s->transfer_domain_row = [](size_t domain, TransferDomainRow& out) {
    out = {domain, SIZE_MAX, SIZE_MAX, SIZE_MAX, true};
  };
  s->transfer_domains = 64;
  const bool yes = true;
  for (bool* each : {&s->resident_known, &s->background_running, &s->price.on})
    memcpy(each, &yes, sizeof(yes));
  return s;
}

TEST(StatsJson, AnEmptyHeapIsValid) {
  const JsonCheck json(Json(HeapStats{}));
  ASSERT_TRUE(json.valid()) << json.error_at();
  EXPECT_EQ(json.Of("bytes.live"), "0");
  EXPECT_EQ(json.Of("coverage"), "0.0000");
  EXPECT_EQ(json.Of("background.running"), "false");
  EXPECT_FALSE(json.Has("classes.0.size"));
}

TEST(StatsJson, ExtremeNumbersAreValid) {
  const std::unique_ptr<HeapStats> s = Extreme();
  const JsonCheck json(Json(*s, SomeOccupancy));
  ASSERT_TRUE(json.valid()) << json.error_at();
  EXPECT_EQ(json.duplicates(), 0u);
  EXPECT_EQ(json.Of("bytes.live"), "18446744073709551615");
  EXPECT_EQ(json.Of("pid"), "2147483647");
  EXPECT_EQ(json.Of("background.running"), "true");
  EXPECT_EQ(json.Of("hugepage_occupancy.1.2"), "L");
  EXPECT_EQ(json.Of("cpu_caches.1.limit"), "18446744073709551615");
  EXPECT_FALSE(json.Has("cpu_caches.2.limit"));
  EXPECT_EQ(json.Of("transfer_domains.63.active"), "true");
  EXPECT_EQ(json.Of("classes." + std::to_string(kNumClasses - 2) + ".size"), "262144");
  EXPECT_FALSE(json.Has("classes." + std::to_string(kNumClasses - 1) + ".size"));
}

TEST(StatsJson, ValuesStandUnderTheirNames) {
  HeapStats s;
  s.cache_mode = "per-cpu (mm_cid)";
  s.rseq = "mm_cid";
  s.thp_mode = "madvise";
  s.pid = 42;
  s.live = 1;
  s.internal_slack = 2;
  s.cpu_cache = 3;
  s.transfer_cache = 4;
  s.central_free = 5;
  s.page_heap_free = 6;
  s.released = 7;
  s.metadata = 8;
  s.untouched = 9;
  s.resident_heap = 100;
  s.mapped = 11;
  s.hugepage_backed = 93;
  s.vcpus = 12;
  s.hits = 13;
  s.misses_alloc = 14;
  s.misses_free = 15;
  s.cpu_cache_total = 34;
  s.cpu_cache_unassigned = 35;
  s.max_vcpus = 3;
  s.cpu_cache_row = [](size_t vcpu, CpuCacheRow& out) {
    out = {vcpu, 36, 37, 38, 39, 40, 41};
    return vcpu == 2;
  };
  s.transfer_domains = 1;
  s.transfer_domain_row = [](size_t domain, TransferDomainRow& out) {
    out = {domain, 42, 43, 44, false};
  };
  s.background_running = true;
  s.background_ticks = 16;
  s.background_released = 17;
  s.limits = {40, 41, 1.5, 42, 43, 44, 45};
  const size_t c = Raw(ClassOfSize(64));
  s.classes[c].spans = 18;
  s.classes[c].live = 19;
  s.classes[c].cpu = 20;
  s.classes[c].transfer = 21;
  s.classes[c].central = 22;
  s.classes[c].hits = 23;
  s.classes[c].misses_alloc = 24;
  s.classes[c].misses_free = 25;
  s.classes[c].spans_taken = 30;
  s.classes[c].spans_returned = 31;
  s.classes[c].observed[7] = 32;
  s.classes[c].returned[0] = 33;
  s.page_heap.filler.hugepages = 26;
  s.page_heap.cache.limit = 27;
  s.page_heap.region.regions = 28;
  s.page_heap.allocator.mapped = 29;
  const JsonCheck json(Json(s));
  ASSERT_TRUE(json.valid());
  const std::pair<const char*, const char*> kExpected[] = {
      {"pid", "42"},
      {"cache_mode", "per-cpu (mm_cid)"},
      {"rseq", "mm_cid"},
      {"thp_mode", "madvise"},
      {"bytes.live", "1"},
      {"bytes.internal_slack", "2"},
      {"bytes.caches", "7"},
      {"bytes.cpu_cache", "3"},
      {"bytes.transfer_cache", "4"},
      {"bytes.central_free", "5"},
      {"bytes.free_resident", "11"},
      {"bytes.released", "7"},
      {"bytes.metadata", "8"},
      {"bytes.untouched", "9"},
      {"bytes.resident", "108"},
      {"bytes.mapped", "11"},
      {"bytes.hugepage_backed", "93"},
      {"coverage", "0.9300"},
      {"page_heap.filler.hugepages", "26"},
      {"page_heap.cache.limit", "27"},
      {"page_heap.region.regions", "28"},
      {"page_heap.allocator.mapped_bytes", "29"},
      {"cache.hits", "13"},
      {"cache.misses_alloc", "14"},
      {"cache.misses_free", "15"},
      {"cache.vcpus", "12"},
      {"cache.limit_bytes", "34"},
      {"cache.unassigned_bytes", "35"},
      {"cpu_caches.0.vcpu", "2"},
      {"cpu_caches.0.capacity", "36"},
      {"cpu_caches.0.used", "37"},
      {"cpu_caches.0.limit", "38"},
      {"cpu_caches.0.misses_alloc", "39"},
      {"cpu_caches.0.misses_free", "40"},
      {"cpu_caches.0.resizes", "41"},
      {"transfer_domains.0.domain", "0"},
      {"transfer_domains.0.cpus", "42"},
      {"transfer_domains.0.objects", "43"},
      {"transfer_domains.0.bytes", "44"},
      {"transfer_domains.0.active", "false"},
      {"background.running", "true"},
      {"background.ticks", "16"},
      {"background.released_bytes", "17"},
      {"classes.0.size", "64"},
      {"classes.0.spans", "18"},
      {"classes.0.live", "19"},
      {"classes.0.cpu", "20"},
      {"classes.0.transfer", "21"},
      {"classes.0.central", "22"},
      {"classes.0.hits", "23"},
      {"classes.0.misses", "49"},
      {"classes.0.spans_taken", "30"},
      {"classes.0.spans_returned", "31"},
      {"classes.0.observed.7", "32"},
      {"classes.0.returned.0", "33"},
  };
  for (const auto& [path, value] : kExpected) EXPECT_EQ(json.Of(path), value) << path;
  EXPECT_FALSE(json.Has("classes.1.size"));
}

TEST(StatsText, NamesTheCacheModeAndEveryPart) {
  HeapStats s;
  s.cache_mode = "per-thread";
  s.live = 3 << 20;
  s.classes[Raw(ClassOfSize(1024))].spans = 77;
  const std::string text = Text(s);
  for (const char* part :
       {"cache mode        per-thread", "live              3.0 MiB", "resident", "released",
        "coverage", "filler", "huge cache", "background        not", "\n  1024      77 "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.back(), '\n');
}

// What nobody knows is left out: a zero would be taken for a figure.
TEST(StatsWriters, WhatIsNotKnownIsLeftOut) {
  HeapStats s;
  EXPECT_EQ(JsonCheck(Json(s)).Of("resident_known"), "true");
  s.resident_known = false;
  s.resident_heap = s.untouched = s.hugepage_backed = 1 << 20;
  const JsonCheck json(Json(s));
  ASSERT_TRUE(json.valid()) << json.error_at();
  EXPECT_EQ(json.Of("resident_known"), "false");
  EXPECT_EQ(json.Of("bytes.resident"), "1048576");
  for (const char* path : {"coverage", "bytes.untouched", "bytes.hugepage_backed"})
    EXPECT_FALSE(json.Has(path)) << path;
  const std::string text = Text(s);
  EXPECT_NE(text.find("1.0 MiB     at most: the kernel can't be asked here\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("untouched"), std::string::npos) << text;
  EXPECT_EQ(text.find("coverage"), std::string::npos) << text;
}

TEST(StatsText, ExtremeNumbersStayOnTheirLines) {
  const std::string text = Text(*Extreme());
  size_t lines = 0;
  for (size_t at = 0, end; at < text.size(); at = end + 1, ++lines) {
    end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_LT(end - at, 200u);
  }
  EXPECT_GT(lines, kNumClasses);
}

}  // namespace
}  // namespace strata::test
