// The lock: exclusion under contention, no lost wake-ups, errno kept, and the rank check of debug
// builds.
#include "base/lock.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "strata/layers/thread/locked.h"

namespace strata {
namespace {

TEST(Lock, OneHolderAtATime) {
  Lock lock(LockRank::kCentral);
  constexpr int kThreads = 4;
  constexpr int kRounds = 200'000;
  int inside = 0;
  long count = 0;
  std::atomic<bool> broken{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        if ((i + t) % 7 != 0 || !lock.TryAcquire()) lock.Acquire();
        if (++inside != 1) broken = true;
        // Yielding inside sends the others into the futex.
        if (i % 512 == 0) sched_yield();
        ++count;
        --inside;
        lock.Release();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(broken);
  EXPECT_EQ(count, long{kThreads} * kRounds);
}

TEST(Lock, AWaiterSleepsAndIsWoken) {
  Lock lock(LockRank::kCentral);
  std::atomic<bool> entered{false};
  lock.Acquire();
  std::thread waiter([&] {
    errno = 77;
    lock.Acquire();
    EXPECT_EQ(errno, 77);
    entered = true;
    lock.Release();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(entered);
  errno = 88;
  lock.Release();
  EXPECT_EQ(errno, 88);
  waiter.join();
  EXPECT_TRUE(entered);
}

TEST(Lock, TryAcquireFailsWhileHeldByAnother) {
  Lock lock(LockRank::kCentral);
  const auto try_elsewhere = [&] {
    bool got = false;
    std::thread([&]() STRATA_NO_TSA {
      got = lock.TryAcquire();
      if (got) lock.Release();
    }).join();
    return got;
  };
  lock.Acquire();
  EXPECT_FALSE(try_elsewhere());
  lock.Release();
  EXPECT_TRUE(try_elsewhere());
}

TEST(Lock, RanksMayBeTakenUpwardsAndEqualOnesTogether) {
  Lock control(LockRank::kControl);
  Lock central_a(LockRank::kCentral);
  Lock central_b(LockRank::kCentral);
  Lock metadata(LockRank::kMetadata);
  LockHolder a(control);
  LockHolder b(central_a);
  LockHolder c(central_b);
  LockHolder d(metadata);
  SUCCEED();
}

// The thread that forks passes through what it holds; others wait until the fork is over.
template <class L, class Take, class Leave, class TakeForFork, class LeaveAfterFork, class Begin,
          class End>
void ForkPassesThrough(L& lock, Take take, Leave leave, TakeForFork take_for_fork,
                       LeaveAfterFork leave_after_fork, Begin begin_fork, End end_fork) {
  std::atomic<bool> entered{false};
  take_for_fork(lock);
  begin_fork();
  std::thread other([&] {
    take(lock);
    entered.store(true, std::memory_order_relaxed);
    leave(lock);
  });
  for (int i = 0; i < 100; ++i) {
    take(lock);
    take(lock);
    leave(lock);
    leave(lock);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_FALSE(entered.load(std::memory_order_relaxed));
  end_fork();
  leave_after_fork(lock);
  other.join();
  take(lock);  // free again
  leave(lock);
  leave_after_fork(lock);  // not taken for a fork: nothing happens
  take(lock);
  leave(lock);
}

TEST(Lock, LetsTheForkingThreadPassAndNoOther) {
  Lock lock(LockRank::kCentral);
  ForkPassesThrough(
      lock, [](Lock& l) STRATA_NO_TSA { l.Acquire(); }, [](Lock& l) STRATA_NO_TSA { l.Release(); },
      [](Lock& l) STRATA_NO_TSA { l.AcquireForFork(); },
      [](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); }, Lock::BeginFork, Lock::EndFork);
}
TEST(FutexLock, LetsTheForkingThreadPassAndNoOther) {
  using layers::FutexLock;
  FutexLock lock;
  ForkPassesThrough(
      lock, [](FutexLock& l) { l.lock(); }, [](FutexLock& l) { l.unlock(); },
      [](FutexLock& l) { l.lock_for_fork(); }, [](FutexLock& l) { l.unlock_after_fork(); },
      FutexLock::begin_fork, FutexLock::end_fork);
}
TEST(FutexLock, IsTriedWithoutWaiting) {
  layers::FutexLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_TRUE(lock.held_by_this_thread());
  std::thread([&lock] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  std::thread([&lock] {
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
  }).join();
}

// A signal handler that forks has interrupted the owner of one lock, while another thread holds a
// second one and waits for the first.
TEST(Lock, AHolderThatForksKeepsItsLockAndWaitsForOthersAMomentOnly) {
  Lock mine(LockRank::kCentral);
  Lock others(LockRank::kTransfer);
  mine.Acquire();
  EXPECT_TRUE(mine.HeldByThisThread());
  std::atomic<bool> holds{false};
  std::thread other([&]() STRATA_NO_TSA {
    others.Acquire();
    holds.store(true);
    mine.Acquire();
    mine.Release();
    others.Release();
  });
  while (!holds.load()) sched_yield();
  EXPECT_FALSE(others.HeldByThisThread());
  const auto forks = [&]() STRATA_NO_TSA {
    others.AcquireForFork(Lock::ForkWait::kAMoment);
    mine.AcquireForFork(Lock::ForkWait::kAMoment);
    const pid_t child = fork();
    if (child == 0) {
      others.ReleaseInForkedChild();
      mine.ReleaseInForkedChild();
      const bool kept = mine.HeldByThisThread();
      mine.Release();
      _exit(kept && others.TryAcquire() && mine.TryAcquire() ? 0 : 1);
    }
    others.ReleaseAfterFork();
    mine.ReleaseAfterFork();
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  };
  EXPECT_EQ(forks(), 0);
  EXPECT_TRUE(mine.HeldByThisThread());
  mine.Release();
  other.join();
}

// A fork in a handler that interrupted the holder: it does not wait for itself.
TEST(Lock, TheHolderTakesItForItsForkAsItIs) {
  Lock lock(LockRank::kCentral);
  const auto fork_as_holder = [&lock]() STRATA_NO_TSA {
    lock.Acquire();
    lock.AcquireForFork(Lock::ForkWait::kAsLongAsItTakes);
    lock.ReleaseAfterFork();
    EXPECT_TRUE(lock.HeldByThisThread());
    lock.Release();
  };
  fork_as_holder();
  const bool free = lock.TryAcquire();
  EXPECT_TRUE(free);
  if (free) lock.Release();
}

#ifndef NDEBUG
TEST(LockDeathTest, TakingALowerRankAborts) {
  Lock central(LockRank::kCentral);
  Lock heap(LockRank::kPageHeap);
  const auto downwards = [&]() STRATA_NO_TSA {
    heap.Acquire();
    central.Acquire();
  };
  EXPECT_DEATH(downwards(), "strata: check failed: held_counts");
  const auto after_release = [&]() STRATA_NO_TSA {
    heap.Acquire();
    heap.Release();
    central.Acquire();
    central.Release();
  };
  after_release();
  EXPECT_DEATH(([&]() STRATA_NO_TSA {
                 heap.Acquire();
                 if (!central.TryAcquire()) _exit(0);
               }()),
               "strata: check failed: held_counts");
}
#endif

}  // namespace
}  // namespace strata
