// Where the statistics go: stderr or a file at exit, a file now and then. Nothing here allocates
// through malloc. Sits in malloc; what the numbers are is in profile/stats.h.
#pragma once

#include <cstddef>

namespace strata {

void PrepareOutput();                   // once at start; says what was found if STRATA_VERBOSE asks
void WriteStatsAtExit();                // STRATA_STATS
void WriteStatsFile(const char* path);  // replaced whole: a reader never sees half a file
void ForgetStatsWriterInChild();
const char* CacheModeName();

}  // namespace strata
