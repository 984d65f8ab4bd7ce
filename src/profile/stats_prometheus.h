// The statistics in the text format that Prometheus scrapes: one table of metrics with name, type,
// unit and meaning, from which docs/metrics.md is written too. Names are stable. Sits in profile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/heap_stats.h"

namespace strata {

// A number that counts something, a number with decimals, or none: not known.
struct MetricValue {
  constexpr MetricValue() = default;
  constexpr MetricValue(uint64_t n) : count(n), is_known(true) {}
  constexpr MetricValue(double share) : ratio(share), is_ratio(true), is_known(true) {}
  uint64_t count = 0;
  double ratio = 0;
  bool is_ratio = false;
  bool is_known = false;
};

struct MetricRow {
  const char* name;  // ends in its unit, and in _total if it only grows (OpenMetrics)
  const char* type;  // gauge or counter
  const char* unit;
  const char* help;
  // One of the three is set. The second: one sample for each size class in use, labelled `size`;
  // the third: for each last-level-cache domain with a transfer cache of its own, labelled
  // `domain`.
  MetricValue (*of_process)(const HeapStats&);
  MetricValue (*of_class)(const ClassStats&);
  MetricValue (*of_domain)(const TransferDomainRow&) = nullptr;
};

// Calls `visit` with each row.
using MetricVisitor = void (*)(void* state, const MetricRow& row);
void VisitMetrics(MetricVisitor visit, void* state);

// `command`: the name of the program, which becomes a label beside the pid, because several
// processes may end up in one scrape. Any bytes will do.
void WritePrometheus(const HeapStats& stats, const char* command, TextSink& sink);

}  // namespace strata
