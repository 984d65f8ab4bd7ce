// Where a thread of the library's runs.
#include "os/thread_privileges.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace strata {
namespace {

bool RunOn(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

// A leader that spins on a CPU of its own would keep the thread from running.
TEST(ThreadPrivileges, TheLeadersCpusComeOnTopOfTheThreadsOwn) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one CPU";
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  int second = first + 1;
  while (!CPU_ISSET(second, &all)) ++second;
  const pid_t child = fork();  // whose main thread is the one that the rule is about
  if (child == 0) {
    bool right = RunOn(first);
    std::thread([&] {
      right = right && RunOn(second);
      RunWhereProcessRuns();
      cpu_set_t now;
      right = right && sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_COUNT(&now) == 2 &&
              CPU_ISSET(first, &now) && CPU_ISSET(second, &now);
    }).join();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace strata
