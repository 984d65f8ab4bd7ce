// The moments in the life of a process at which reports are due: what STRATA_STATS, STRATA_PROFILE
// and their like ask for. src/report defines these, so that no include points up. Sits in malloc.
#pragma once

namespace strata {

void PrepareReports();  // once, from the library's constructor
void WriteReportsAtExit();
bool WritesReport();          // this thread, when a signal handler interrupted it
void ForgetReportsInChild();  // of a fork: whoever wrote one is not there

}  // namespace strata
