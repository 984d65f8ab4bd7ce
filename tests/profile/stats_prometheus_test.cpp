// The Prometheus exporter: every sample under its name, names after OpenMetrics' rules, and no
// label that ends early whatever the program is called.
#include "profile/stats_prometheus.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace strata {
namespace {

std::string Text(const HeapStats& s, const char* command = "server") {
  std::vector<char> memory(1 << 20);
  TextSink sink(memory.data(), memory.size());
  WritePrometheus(s, command, sink);
  EXPECT_LT(sink.Finish(), memory.size());
  return memory.data();
}

bool EndsIn(const std::string& text, const char* end) {
  const size_t n = strlen(end);
  return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

TEST(StatsPrometheus, NamesFollowTheRules) {
  std::vector<MetricRow> rows;
  VisitMetrics(
      [](void* to, const MetricRow& row) {
        static_cast<std::vector<MetricRow>*>(to)->push_back(row);
      },
      &rows);
  ASSERT_GT(rows.size(), 50u);
  std::set<std::string> families;
  for (const MetricRow& row : rows) {
    const std::string name = row.name;
    SCOPED_TRACE(name);
    const bool counter = strcmp(row.type, "counter") == 0;
    EXPECT_TRUE(counter || strcmp(row.type, "gauge") == 0);
    EXPECT_EQ(name.rfind("strata_", 0), 0u);
    EXPECT_EQ(EndsIn(name, "_total"), counter);
    const std::string family = counter ? name.substr(0, name.size() - 6) : name;
    EXPECT_TRUE(families.insert(family).second) << "a counter may not share a gauge's name";
    EXPECT_TRUE(EndsIn(family, row.unit)) << row.unit;
    EXPECT_EQ((row.of_process != nullptr) + (row.of_class != nullptr) + (row.of_domain != nullptr),
              1);
    EXPECT_TRUE(EndsIn(row.help, "."));
    EXPECT_EQ(strpbrk(row.help, "\\\n\t"), nullptr) << "would have to be escaped";
  }
}

TEST(StatsPrometheus, ValuesStandUnderTheirNames) {
  auto s = std::make_unique<HeapStats>();
  s->pid = 7;
  s->live = 1234;
  s->resident_heap = 100;
  s->hugepage_backed = 25;
  s->hits = UINT64_MAX;
  s->classes[1].spans = 3;
  s->classes[1].live = 42;
  s->classes[3].spans_taken = 9;  // all of them went back
  s->limits.hard_limit = 1 << 20;
  s->limits.cpu_quota = 2.5;
  s->limits.soft_hits = 11;
  s->sampler.interval = 4096;
  s->sampler.samples = 77;
  s->sampler.dropped = 5;
  s->transfer_domains = 2;
  s->transfer_domain_row = [](size_t domain, TransferDomainRow& out) {
    out.domain = domain;
    out.bytes = 100 + domain;
  };
  const std::string text = Text(*s);
  for (const char* line : {
           "# TYPE strata_live_bytes gauge\nstrata_live_bytes{command=\"server\",pid=\"7\"} 1234\n",
           "strata_hugepage_coverage_ratio{command=\"server\",pid=\"7\"} 0.2500\n",
           "strata_cache_hits_total{command=\"server\",pid=\"7\"} 18446744073709551615\n",
           "strata_class_live_objects{command=\"server\",pid=\"7\",size=\"8\"} 42\n",
           "strata_class_spans{command=\"server\",pid=\"7\",size=\"8\"} 3\n",
           "strata_class_taken_spans_total{command=\"server\",pid=\"7\",size=\"32\"} 9\n",
           "strata_heap_limit_bytes{command=\"server\",pid=\"7\"} 1048576\n",
           "strata_cpu_quota_cpus{command=\"server\",pid=\"7\"} 2.5000\n",
           "strata_soft_limit_hits_total{command=\"server\",pid=\"7\"} 11\n",
           "strata_sample_interval_bytes{command=\"server\",pid=\"7\"} 4096\n",
           "strata_samples_total{command=\"server\",pid=\"7\"} 77\n",
           "strata_dropped_samples_total{command=\"server\",pid=\"7\"} 5\n",
           "strata_transfer_domain_bytes{command=\"server\",pid=\"7\",domain=\"0\"} 100\n",
           "strata_transfer_domain_bytes{command=\"server\",pid=\"7\",domain=\"1\"} 101\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("size=\"16\""), std::string::npos) << "a class without spans";
  EXPECT_EQ(text.back(), '\n');
}

TEST(StatsPrometheus, WhatIsNotKnownHasNoSample) {
  HeapStats s;
  EXPECT_NE(Text(s).find(",resident_known=\"true\"} 1\n"), std::string::npos);
  EXPECT_NE(Text(s).find("\nstrata_untouched_bytes{"), std::string::npos);
  s.resident_known = false;
  const std::string text = Text(s);
  EXPECT_NE(text.find(",resident_known=\"false\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nstrata_resident_bytes{"), std::string::npos) << text;
  for (const char* name : {"\nstrata_untouched_bytes{", "\nstrata_hugepage_backed_bytes{",
                           "\nstrata_hugepage_coverage_ratio{"})
    EXPECT_EQ(text.find(name), std::string::npos) << name;
}

TEST(StatsPrometheus, ALabelHoldsAnything) {
  const HeapStats s;
  EXPECT_NE(Text(s, "a\"b\\c\nd\xff").find("{command=\"a\\\"b\\\\c?d?\",pid"), std::string::npos);
  EXPECT_NE(Text(s, "").find("{command=\"\",pid"), std::string::npos);
  const std::string longest(63, 'x');
  EXPECT_NE(Text(s, std::string(300, 'x').c_str()).find("{command=\"" + longest + "\",pid"),
            std::string::npos);
}

}  // namespace
}  // namespace strata
