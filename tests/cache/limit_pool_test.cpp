// The pool from which limits rise: it gives what it has, once.
#include "cache/limit_pool.h"

#include <gtest/gtest.h>

#include "../profile/single_step.h"
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

// Another thread takes after each instruction that the first one executes.
TEST(LimitPool, WhoTakesAtTheSameTimeNeverGetsTheSameBytes) {
  if (!kSingleSteps) GTEST_SKIP() << "ThreadSanitizer's own code must not be interrupted";
  size_t steps = 1;
  for (size_t moment = 0; moment < steps; ++moment) {
    LimitPool pool;
    pool.Set(100);
    size_t one = 0, other = 0;
    steps = SingleStep::Run([&] { one = pool.Take(70); },
                            [&](size_t step) {
                              if (step == moment) other = pool.Take(70);
                            });
    ASSERT_EQ(one + other, 100u) << moment;
  }
  EXPECT_GT(steps, 2u);
}

}  // namespace
}  // namespace strata::test
