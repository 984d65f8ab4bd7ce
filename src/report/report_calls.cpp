// When reports are due. See malloc/report_calls.h.
#include "malloc/report_calls.h"

#include "report/profile_output.h"
#include "report/stats_output.h"

namespace strata {

void PrepareReports() {
  PrepareOutput();
  InstallProfileSignal();
}

void WriteReportsAtExit() {
  WriteProfileAtExit();
  WriteStatsAtExit();
}

bool WritesReport() { return WritesStats() || WritesProfile(); }

void ForgetReportsInChild() {
  ForgetStatsWriterInChild();
  ForgetProfileWriterInChild();
}

}  // namespace strata
