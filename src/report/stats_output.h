// Where the statistics go: stderr or a file at exit, a file now and then. Nothing here allocates
// through malloc. Sits in report; what the numbers are is in profile/heap_stats.h.
#pragma once

#include <cstddef>

namespace strata {

void PrepareOutput();     // once at start; says what was found if STRATA_VERBOSE asks
void WriteStatsAtExit();  // STRATA_STATS
void WriteStatsFiles();   // STRATA_STATS if it is a path, STRATA_PROMETHEUS
bool WritesStats();       // this thread, in a signal handler, was about to
void ForgetStatsWriterInChild();

}  // namespace strata
