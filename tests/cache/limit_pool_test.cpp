// The pool from which limits rise: it gives what it has, once.
#include "cache/limit_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fake_vcpus.h"

namespace strata::test {
namespace {

TEST(LimitPool, GivesWhatItHasAndNoMore) {
  LimitPool pool;
  pool.Set(100);
  EXPECT_EQ(pool.Take(70), 70u);
  EXPECT_EQ(pool.Take(70), 30u);
  EXPECT_EQ(pool.Take(70), 0u);
  EXPECT_EQ(pool.bytes(), 0u);
}

TEST(LimitPool, AClaimGoesUpToTheShareAndAsFarAsThePoolGoes) {
  FakeVcpus f(1);
  Vcpu& v = f.Use(0, 10);
  f.pool.SetShare(100);
  LockHolder hold(v.lock);
  f.pool.Claim(v);
  EXPECT_EQ(v.limit(), 10u);
  EXPECT_EQ(v.resizes(), 0u);
  f.pool.Set(50);
  f.pool.Claim(v);
  EXPECT_EQ(v.limit(), 60u);
  f.pool.Set(50);
  f.pool.Claim(v);
  EXPECT_EQ(v.limit(), 100u);
  EXPECT_EQ(f.pool.bytes(), 10u);
  f.pool.Claim(v);
  EXPECT_EQ(f.pool.bytes(), 10u);
  f.pool.Raise(v, 105);
  f.pool.Claim(v);  // has more than the share
  EXPECT_EQ(v.limit(), 105u);
  EXPECT_EQ(f.pool.bytes(), 5u);
}

TEST(LimitPool, ThreadsThatTakeAtOnceNeverTakeTheSameBytes) {
  constexpr size_t kBytes = 10'000'000;
  for (int meeting = 0; meeting < 10; ++meeting) {
    LimitPool pool;
    pool.Set(kBytes);
    size_t got[2] = {};
    std::atomic<int> there{0};
    const auto take = [&](size_t me) {
      ++there;
      while (there != 2) continue;
      while (const size_t bytes = pool.Take(7)) got[me] += bytes;
    };
    std::thread other(take, 1);
    take(0);
    other.join();
    ASSERT_EQ(got[0] + got[1], kBytes);
  }
}

}  // namespace
}  // namespace strata::test
