// The control of rseq_stress_test.cpp: the same code without the store that tells the kernel of the
// sequence, so that nothing is ever restarted. The stress must find it broken, or it could not find
// anything.
#define STRATA_RSEQ_PUBLISH(spare) ""
#include "rseq_stress.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace strata::test {
namespace {

// How a run of the broken code ends. In a child, because objects with two owners may also end in a
// crash or a hang.
int StatusOfRun(const RseqInfo& info, int ms, Disturbance disturbance) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    const StressResult result = RseqStress(info).Run(std::chrono::milliseconds(ms), disturbance);
    _exit(result.violations != 0 ? 3 : result.moves == 0 ? 4 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void ExpectFoundBroken(RseqIndex index) {
  const RseqInfo info = RseqIndexedBy(index);
  if (info.index == RseqIndex::kNone) GTEST_SKIP() << "this kernel or glibc does not have it";
  // One thread that nobody disturbs needs no restarts: the code is broken in nothing else.
  EXPECT_EQ(StatusOfRun(info, 300, Disturbance::kNone), 0);
  // One run finds it, but on an emulated machine that has much else to do.
  int status = 0;
  for (int run = 0; run < 10 && status == 0; ++run) {
    status = StatusOfRun(info, 4000, Disturbance::kAll);
  }
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 3)
      << "the stress test did not notice that nothing is restarted, status " << status;
}

TEST(RseqControl, BrokenSequencesAreFoundByMmCid) { ExpectFoundBroken(RseqIndex::kMmCid); }
TEST(RseqControl, BrokenSequencesAreFoundByCpuId) { ExpectFoundBroken(RseqIndex::kCpuId); }

}  // namespace
}  // namespace strata::test
