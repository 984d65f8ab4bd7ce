// Work on the side stack: where it runs, what the caller notices, and that many may do it at once.
#include "os/side_stack.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "looked.h"

#ifndef STRATA_SANITIZED
namespace strata {
namespace {

uintptr_t StackPointer() { return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); }

size_t Distance(uintptr_t a, uintptr_t b) { return a > b ? a - b : b - a; }

TEST(SideStack, RunsElsewhereAndComesBack) {
  uintptr_t there = 0;
  OnSideStack([&] { there = StackPointer(); });
  EXPECT_GT(Distance(there, StackPointer()), size_t{256} << 10);
}

TEST(SideStack, HoldsWhatTheLibraryNeedsAtMost) {
  OnSideStack([] {
    volatile char deep[96 << 10];
    for (size_t i = 0; i < sizeof deep; i += 4096) deep[i] = 1;
  });
}

TEST(SideStack, Nests) {
  uintptr_t outer = 0;
  uintptr_t inner = 0;
  OnSideStack([&] {
    outer = StackPointer();
    OnSideStack([&] { inner = StackPointer(); });
  });
  EXPECT_NE(inner, 0u);
  EXPECT_GT(Distance(inner, outer), size_t{100} << 10);
}

TEST(SideStack, KeepsErrno) {
  errno = EXDEV;
  OnSideStack([] { errno = ENOENT; });
  EXPECT_EQ(errno, EXDEV);
}

std::atomic<int> g_signals{0};
std::atomic<uintptr_t> g_handler_sp{0};

TEST(SideStack, HoldsSignalsBackUntilItIsLeft) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {
    ++g_signals;
    g_handler_sp = StackPointer();
  };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  int inside = -1;
  OnSideStack([&] {
    raise(SIGUSR1);
    inside = g_signals;
  });
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(g_signals, 1);
  EXPECT_LT(Distance(g_handler_sp, StackPointer()), size_t{64} << 10);
  sigset_t now;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
  EXPECT_EQ(sigismember(&now, SIGUSR1), 0);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(SideStack, LeavesFaultsToTheirHandlers) {
  OnSideStack([] {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
      EXPECT_EQ(sigismember(&now, fault), 0) << fault;
    EXPECT_EQ(sigismember(&now, SIGPROF), 1);
  });
}

struct Frames {
  uintptr_t wanted;
  bool found = false;
};

_Unwind_Reason_Code Look(_Unwind_Context* context, void* arg) {
  auto* frames = static_cast<Frames*>(arg);
  const auto function = reinterpret_cast<uintptr_t>(
      _Unwind_FindEnclosingFunction(reinterpret_cast<void*>(_Unwind_GetIP(context))));
  if (function == frames->wanted) frames->found = true;
  return _URC_NO_REASON;
}

__attribute__((noinline)) void Caller(void* arg) {
  OnSideStack([](void* frames) { _Unwind_Backtrace(Look, frames); }, arg);
  asm volatile("");  // no tail call
}

TEST(SideStack, UnwindersPass) {
  Frames frames{reinterpret_cast<uintptr_t>(Caller)};
  Caller(&frames);
  EXPECT_TRUE(frames.found);
}

TEST(SideStack, ManyAtOnce) {
  constexpr int kThreads = 64;
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&inside, i] {
      OnSideStack([&inside, i] {
        volatile int mine[1000];
        for (int& k : const_cast<int(&)[1000]>(mine)) k = i;
        ++inside;
        while (inside < kThreads) std::this_thread::yield();
        for (const volatile int& k : mine) ASSERT_EQ(k, i);
      });
    });
  }
  for (std::thread& t : threads) t.join();
}

// Nested, so that the spare one is taken: what is inside then runs where it stands.
TEST(SideStack, WithoutMemoryTheWorkIsDoneAllTheSame) {
  const auto work = [] {
    bool done = false;
    OnSideStack([&done] {
      struct rlimit none = {0, RLIM_INFINITY};
      if (setrlimit(RLIMIT_AS, &none) != 0) _exit(1);
      OnSideStack([&done] { done = true; });
    });
    _exit(done ? 0 : 2);
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace strata
#endif
