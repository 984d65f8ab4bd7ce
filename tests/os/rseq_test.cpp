// What the process learns about rseq and its CPUs, against what it can see by itself.
#include "os/rseq.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <thread>

#include "os/confinement.h"

namespace strata {
namespace {

TEST(Rseq, PossibleCpusCoverTheConfiguredOnes) {
  const size_t possible = PossibleCpus();
  EXPECT_GE(possible, static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)));
  EXPECT_LE(possible, 8192u);
  const int here = sched_getcpu();
  EXPECT_LT(static_cast<size_t>(here), possible);
}

TEST(Rseq, AListOfCpusMayBeOfAnyLength) {
  char name[] = "/tmp/strata-possible-XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  for (int cpu = 0; cpu <= 2000; cpu += 2) dprintf(fd, cpu == 0 ? "%d" : ",%d", cpu);
  close(fd);
  EXPECT_EQ(PossibleCpus(name), 2001u);
  unlink(name);
}

TEST(Rseq, IndexesStayBelowPossibleCpus) {
  const RseqInfo info = FindRseq();
  if (info.index == RseqIndex::kNone) GTEST_SKIP() << "no rseq here";
  EXPECT_TRUE(ThreadHasRseq(info));
  EXPECT_LT(CurrentVcpu(info), PossibleCpus());
  std::thread([&] {
    EXPECT_TRUE(ThreadHasRseq(info));
    EXPECT_LT(CurrentVcpu(info), PossibleCpus());
  }).join();
  EXPECT_FALSE(FenceRseq());  // nobody knows yet that no filter forbids it
  FindInheritedConfinement();
  EXPECT_TRUE(FenceRseq());
}

TEST(Rseq, TheCpuIdIsTheCpu) {
  RseqInfo info = FindRseq();
  if (info.index == RseqIndex::kNone) GTEST_SKIP() << "no rseq here";
  info.index_offset = info.area_offset + static_cast<ptrdiff_t>(kRseqCpuIdOffset);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(CurrentVcpu(info), static_cast<size_t>(cpu));
  }
  sched_setaffinity(0, sizeof(before), &before);
}

}  // namespace
}  // namespace strata
