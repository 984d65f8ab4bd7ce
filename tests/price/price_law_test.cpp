// The law's promises, on figures and by simulation: nothing costs where there is enough, the price
// only rises as less is left, nobody crosses the reserve, growers share by weight and do not swing.
#include "price/price_law.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "price/account.h"
#include "price/fork_account.h"

namespace strata {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kBox = 1024 * kMiB;
constexpr PriceTerms kTerms = kMemoryTerms;

Supply WithLeft(double left, double pressure = 0) { return {kBox, kBox - left, pressure}; }

TEST(PriceLaw, CostsNothingWhileThereIsEnough) {
  EXPECT_EQ(PriceOf(WithLeft(kBox / 2), {}, kTerms), 0);
  EXPECT_EQ(PriceOf(WithLeft(kTerms.begins * kBox + 1), {}, kTerms), 0);
  EXPECT_GT(PriceOf(WithLeft(kTerms.begins * kBox - 1), {}, kTerms), 0);
  EXPECT_EQ(DelayNs(WithLeft(kBox / 2), {}, kTerms, kBox), 0u);
  EXPECT_EQ(PriceOf({}, {}, kTerms), 0);  // no limit is known
}

TEST(PriceLaw, RisesAsLessIsLeft) {
  double before = 0;
  for (double left = kTerms.begins * kBox - kMiB; left > 0; left -= kMiB) {
    const double price = PriceOf(WithLeft(left), {}, kTerms);
    EXPECT_GE(price, before) << left / kMiB;
    before = price;
  }
  // Beyond the limit, which the kernel's own figures can be for a moment.
  EXPECT_GE(PriceOf({kBox, kBox * 1.1, 0}, {}, kTerms), before);
}

TEST(PriceLaw, AsksMoreOfWhoHoldsMoreAndLessOfWhoWeighsMore) {
  const Supply s = WithLeft(60 * kMiB);
  EXPECT_GT(PriceOf(s, {kBox / 2, 100}, kTerms), PriceOf(s, {kBox / 4, 100}, kTerms));
  EXPECT_DOUBLE_EQ(PriceOf(s, {kBox / 2, 400}, kTerms) * 4, PriceOf(s, {kBox / 2, 100}, kTerms));
}

TEST(PriceLaw, PressureMakesLessOfWhatIsLeft) {
  EXPECT_GT(PriceOf(WithLeft(60 * kMiB, 0.5), {}, kTerms),
            PriceOf(WithLeft(60 * kMiB), {}, kTerms));
  // Where all wait, as when the machine swaps, it costs before the last tenth.
  EXPECT_GT(PriceOf(WithLeft(0.5 * kBox, 0.9), {}, kTerms), 0);
}

// Limits bind together: the machine's, a slice's, and that of a small box in it.
TEST(PriceLaw, OfSeveralLimitsTheDearestCounts) {
  const Buyer b{kMiB};
  const Supply wide_and_scarce{512 * kMiB, (512 - 26) * kMiB, 0};  // a twentieth is left
  const Supply small_with_enough{36 * kMiB, (36 - 17) * kMiB, 0};  // less, but a half
  EXPECT_TRUE(IsDearer(wide_and_scarce, small_with_enough, b, kTerms));
  EXPECT_FALSE(IsDearer(small_with_enough, wide_and_scarce, b, kTerms));
  // Of 100 GiB 8 % is plenty; of 100 MiB 9 % is not, though it is the larger part.
  const Supply huge{102'400 * kMiB, 94'208 * kMiB, 0}, small{100 * kMiB, 91 * kMiB, 0};
  EXPECT_TRUE(IsDearer(small, huge, b, kTerms));
  EXPECT_FALSE(IsDearer(huge, small, b, kTerms));
  // None costs anything yet: the one that soon will.
  const Supply far{kBox, 0, 0}, near{100 * kMiB, 80 * kMiB, 0};
  EXPECT_TRUE(IsDearer(near, far, b, kTerms));
}

// A look comes in time for each limit, though another one is the dearest now.
TEST(PriceLaw, BetweenTwoLooksGoesLittleOfWhatIsLeft) {
  const auto step = [](const Supply& s) { return StepOf(s, kTerms, 1, kBox); };
  EXPECT_EQ(step({}), kBox);
  for (const double left : {kBox, kBox / 2, 110 * kMiB}) {
    EXPECT_LT(step(WithLeft(left)), (left - kTerms.begins * kBox) / 10) << left;
  }
  for (const double left : {100 * kMiB, 60 * kMiB, 30 * kMiB}) {
    EXPECT_LT(step(WithLeft(left)), (left - kTerms.reserve * kBox) / 32) << left;
  }
  EXPECT_GT(step(WithLeft(100 * kMiB)), kMiB);
  EXPECT_EQ(step(WithLeft(0)), 1);
}

TEST(PriceLaw, ALittleGrowthIsFreeAndAPaymentIsBounded) {
  const Supply s = WithLeft(60 * kMiB);
  const Buyer b{s.used / 4};
  EXPECT_EQ(DelayNs(s, b, kTerms, SavingsOf(s, b, kTerms)), 0u);
  EXPECT_GT(DelayNs(s, b, kTerms, SavingsOf(s, b, kTerms) + kMiB), 0u);
  EXPECT_LE(4 * SavingsOf(s, b, kTerms), kTerms.reserve / 2 * kBox);
  EXPECT_EQ(DelayNs(WithLeft(0), b, kTerms, kBox), kTerms.longest_ns);
}

TEST(PriceLaw, NobodyMayOweMoreThanIsLeft) {
  const Supply s = WithLeft(2 * kMiB);  // the limit was lowered
  const Buyer all{s.used};
  EXPECT_NEAR(SavingsOf(s, all, kTerms), 2 * kMiB, 1);
  EXPECT_EQ(SavingsOf(WithLeft(0), all, kTerms), 0);
  EXPECT_EQ(SavingsOf({kBox, kBox * 1.1, 0}, all, kTerms), 0);
}

// Processes that take `block` whenever they may, in steps of a tenth of a second.
class Box {
 public:
  struct Grower {
    double holds;
    uint32_t weight = 100;
    GrowthAccount account{};
    uint64_t waits_until = 0;
  };

  explicit Box(std::vector<Grower> growers) : growers_(std::move(growers)) {}

  double used() const {
    double sum = 0;
    for (const Grower& g : growers_) sum += g.holds;
    return sum;
  }
  double left() const { return kBox - used(); }
  const Grower& at(size_t i) const { return growers_[i]; }

  void Run(double seconds, double block) {
    for (const uint64_t end = now_ + static_cast<uint64_t>(seconds * 1e9); now_ < end;
         now_ += kStep) {
      for (Grower& g : growers_) {
        for (int taken = 0; taken < kMostAStep; ++taken) {
          const Supply s{kBox, used(), 0};
          g.account.Settle(s, {g.holds, g.weight}, kTerms, now_);
          if (DelayNs(s, {g.holds, g.weight}, kTerms, g.account.debt()) != 0) break;
          g.holds += block;
        }
      }
      least_ = std::min(least_, left());
    }
  }
  double least() const { return least_; }

 private:
  static constexpr uint64_t kStep = 100'000'000;
  static constexpr int kMostAStep = 64;
  std::vector<Grower> growers_;
  uint64_t now_ = 1'000'000'000;
  double least_ = kBox;
};

TEST(PriceLaw, WhoGrowsWithoutEndLeavesHalfTheReserve) {
  for (const double block : {kMiB / 16, kMiB, 4 * kMiB}) {
    Box box({{100 * kMiB}, {300 * kMiB}});
    box.Run(600, block);
    EXPECT_GT(box.left(), kTerms.reserve / 2 * kBox - 2 * block) << block;
    EXPECT_LT(box.left(), kTerms.begins * kBox) << block;
  }
}

TEST(PriceLaw, TenGrowersDoNotEither) {
  Box box(std::vector<Box::Grower>(10, {20 * kMiB}));
  box.Run(600, kMiB / 16);
  EXPECT_GT(box.left(), 0.4 * kTerms.reserve * kBox);
}

// From the moment at which it is scarce, two equal growers take the same, and what is left only
// falls: no swing.
TEST(PriceLaw, EqualGrowersTakeEqualPartsAndDoNotSwing) {
  Box box({{470 * kMiB}, {470 * kMiB}});
  double before = box.left();
  for (int second = 0; second < 300; ++second) {
    box.Run(1, kMiB / 16);
    EXPECT_LE(box.left(), before);
    before = box.left();
    EXPECT_NEAR(box.at(0).holds, box.at(1).holds, kMiB);
  }
}

TEST(PriceLaw, TwiceTheWeightTakesTwice) {
  Box box({{470 * kMiB, 100}, {470 * kMiB, 200}});
  box.Run(1, kMiB / 16);  // what is saved
  const double a = box.at(0).holds, b = box.at(1).holds;
  box.Run(20, kMiB / 16);
  EXPECT_NEAR((box.at(1).holds - b) / (box.at(0).holds - a), 2, 0.2);
}

TEST(GrowthAccount, StandingStillAndSwingingWithinBoundsCostNothing) {
  GrowthAccount account;
  const Supply s = WithLeft(40 * kMiB);
  uint64_t now = 1'000'000'000;
  for (int i = 0; i < 100; ++i, now += 100'000'000) {
    account.Settle(s, {(i % 2 == 0 ? 200 : 180) * kMiB, 100}, kTerms, now);
    EXPECT_EQ(account.debt(), 0) << i;
  }
}

TEST(GrowthAccount, GivingBackPaysAndCountsWhenItIsTakenAgain) {
  GrowthAccount account;
  const Supply s = WithLeft(kTerms.reserve * kBox);  // time pays next to nothing
  account.Settle(s, {100 * kMiB, 100}, kTerms, 1'000'000'000);
  account.Settle(s, {120 * kMiB, 100}, kTerms, 1'000'000'001);
  EXPECT_NEAR(account.debt(), 20 * kMiB, 1);
  account.Settle(s, {105 * kMiB, 100}, kTerms, 1'000'000'002);
  EXPECT_NEAR(account.debt(), 5 * kMiB, 1);
  account.Settle(s, {120 * kMiB, 100}, kTerms, 1'000'000'003);
  EXPECT_NEAR(account.debt(), 20 * kMiB, 1);
}

TEST(GrowthAccount, WhoCameFirstGoesFirst) {
  GrowthAccount account;
  const Supply s = WithLeft(40 * kMiB);
  uint64_t now = 1'000'000'000;
  account.Settle(s, {100 * kMiB}, kTerms, now);
  account.Settle(s, {102 * kMiB}, kTerms, now);
  const double first = account.Place();
  account.Settle(s, {107 * kMiB}, kTerms, now);
  const double second = account.Place();
  EXPECT_NEAR(account.OwedUpTo(first), 2 * kMiB, 1);
  EXPECT_NEAR(account.OwedUpTo(second), 7 * kMiB, 1);
  while (account.OwedUpTo(first) > 0) account.Settle(s, {107 * kMiB}, kTerms, now += 10'000'000);
  EXPECT_NEAR(account.OwedUpTo(second), 5 * kMiB, kMiB / 8);
  account.Settle(WithLeft(kBox / 2), {107 * kMiB}, kTerms, now);
  EXPECT_EQ(account.OwedUpTo(second), 0);
}

TEST(GrowthAccount, WhoWaitsWhileItRestartsGoesBeforeNewcomers) {
  GrowthAccount account;
  const Supply s = WithLeft(kTerms.reserve * kBox);
  uint64_t now = 1'000'000'000;
  account.Settle(s, {100 * kMiB}, kTerms, now);
  account.Settle(s, {110 * kMiB}, kTerms, now);
  const double waiter = account.Place();
  account.Restart();
  EXPECT_EQ(account.debt(), 0);
  account.Settle(s, {110 * kMiB}, kTerms, ++now);
  EXPECT_EQ(account.debt(), 0);  // what it held then is no growth
  account.Settle(s, {115 * kMiB}, kTerms, ++now);
  EXPECT_NEAR(account.debt(), 5 * kMiB, 1);
  EXPECT_NEAR(account.OwedUpTo(waiter), 0, 1);
  EXPECT_NEAR(account.OwedUpTo(account.Place()), 5 * kMiB, 1);
}

// Each has been given a block that it touches when it may go on.
TEST(GrowthAccount, ManyThreadsThatWaitDoNotGoAtOnce) {
  struct Thread {
    double place = 0;
    bool waits = false;
  };
  std::vector<Thread> threads(200);
  GrowthAccount account;
  double touched = kBox - 80 * kMiB, given = touched;
  for (uint64_t now = 1'000'000'000; now < 120'000'000'000; now += 100'000'000) {
    for (Thread& t : threads) {
      if (!t.waits) given += kMiB;
      const Supply s{kBox, touched, 0};
      account.Settle(s, {given}, kTerms, now);
      if (!t.waits) t.place = account.Place();
      t.waits = DelayNs(s, {given}, kTerms, account.OwedUpTo(t.place)) != 0;
      if (!t.waits) touched += kMiB;
    }
  }
  EXPECT_GT(kBox - touched, kTerms.reserve / 2 * kBox - 2 * kMiB);
  EXPECT_LT(kBox - touched, 40 * kMiB);  // and some do go on
}

TEST(GrowthAccount, WhatWasGivenBackLongAgoIsGrowthAgain) {
  GrowthAccount account;
  const Supply s = WithLeft(kTerms.reserve * kBox);
  account.Settle(s, {200 * kMiB, 100}, kTerms, 1'000'000'000);
  account.Settle(s, {100 * kMiB, 100}, kTerms, 2'000'000'000);
  account.Settle(s, {100 * kMiB, 100}, kTerms, 602'000'000'000);
  account.Settle(s, {200 * kMiB, 100}, kTerms, 602'000'000'001);
  EXPECT_GT(account.debt(), 95 * kMiB);
}

TEST(GrowthAccount, DebtsEndWhereThereIsEnoughAndTheClockMayJump) {
  GrowthAccount account;
  account.Settle(WithLeft(40 * kMiB), {100 * kMiB, 100}, kTerms, 5'000'000'000);
  account.Settle(WithLeft(40 * kMiB), {140 * kMiB, 100}, kTerms, 1'000'000'000);  // backwards
  EXPECT_GT(account.debt(), 39 * kMiB);
  const double before = account.debt();
  account.Settle(WithLeft(40 * kMiB), {140 * kMiB, 100}, kTerms, 2'000'000'000);
  EXPECT_LT(account.debt(), before);  // a second has passed by this clock
  account.Settle(WithLeft(kBox / 2), {140 * kMiB, 100}, kTerms, 2'000'000'001);
  EXPECT_EQ(account.debt(), 0);
}

// As in a child in a time namespace of its own, which inherits the account.
TEST(GrowthAccount, AClockThatGoesBackPaysOnAndOneThatLeapsPaysAll) {
  GrowthAccount account;
  const Supply s = WithLeft(40 * kMiB);
  constexpr uint64_t kHour = 3'600'000'000'000;
  account.Settle(s, {100 * kMiB, 100}, kTerms, 2 * kHour);
  account.Settle(s, {140 * kMiB, 100}, kTerms, 2 * kHour);
  const double owed = account.debt();
  ASSERT_GT(owed, 30 * kMiB);
  account.Settle(s, {140 * kMiB, 100}, kTerms, kHour);
  EXPECT_EQ(account.debt(), owed);
  constexpr uint64_t kMinute = kHour / 60;
  account.Settle(s, {140 * kMiB, 100}, kTerms, kHour + kMinute);
  EXPECT_LT(account.debt(), owed);
  account.Settle(s, {140 * kMiB, 100}, kTerms, 2 * kHour);
  EXPECT_EQ(account.debt(), 0);
}

TEST(ForkAccount, AClockThatGoesBackWaitsOnAndOneThatLeapsEndsTheWait) {
  const Supply s{500, 450, 0};
  constexpr uint64_t kHour = 3'600'000'000'000;
  ForkAccount account;
  account.Begin(2 * kHour, 0);
  account.Begin(2 * kHour, 1);
  const uint64_t owed = account.OwedNs(s, 100, 2 * kHour);
  ASSERT_GT(owed, 0u);
  EXPECT_EQ(account.OwedNs(s, 100, kHour), owed);
  EXPECT_LT(account.OwedNs(s, 100, kHour + 1'000'000), owed);
  EXPECT_EQ(account.OwedNs(s, 100, 2 * kHour), 0u);
}

// A bomb: each process forks whenever it may, and its children do.
TEST(ForkAccount, ABombNeverFillsTheTable) {
  struct Process {
    ForkAccount account;
    bool waits = false;
  };
  constexpr double kMost = 500;
  constexpr uint64_t kTick = 100'000'000;
  std::vector<Process> all(1);
  all[0].account.Begin(1, 1);
  std::mt19937_64 random(7);
  std::exponential_distribution<double> exponential(1);
  uint64_t now = 1'000'000'000;
  double after_ten_seconds = 0;
  for (int tick = 0; tick < 6000; ++tick, now += kTick) {
    const size_t n = all.size();
    for (size_t i = 0; i < n; ++i) {
      Process& p = all[i];
      if (!p.waits) p.account.Begin(now, exponential(random));
      p.waits = p.account.OwedNs({kMost, static_cast<double>(all.size()), 0}, 100, now) != 0;
      if (!p.waits) all.push_back({p.account});
    }
    if (tick == 100) after_ten_seconds = static_cast<double>(all.size());
  }
  EXPECT_GT(after_ten_seconds, 375);
  EXPECT_LT(static_cast<double>(all.size()), kMost);
}

TEST(ForkAccount, WhoForksNowAndThenPaysNothing) {
  ForkAccount account;
  const Supply s{500, 450, 0};
  constexpr uint64_t kMinute = 60'000'000'000;
  const auto fork = [&](const Supply& supply, uint64_t now) {
    account.Begin(now, 0.5);
    return account.OwedNs(supply, 100, now);
  };
  EXPECT_EQ(fork(s, 2 * kMinute), 0u);
  EXPECT_GT(fork(s, 2 * kMinute + 1), 0u);
  EXPECT_EQ(fork(s, 60 * kMinute), 0u);
  EXPECT_EQ(fork({500, 100, 0}, 60 * kMinute + 1), 0u);
}

TEST(ForkAccount, TimePaysAndAWaitIsBounded) {
  ForkAccount account;
  const Supply s{500, 450, 0};
  account.Begin(1, 0);
  account.Begin(2, 1);
  const uint64_t owed = account.OwedNs(s, 100, 2);
  ASSERT_GT(owed, 0u);
  EXPECT_NEAR(static_cast<double>(account.OwedNs(s, 100, 2 + owed / 2)),
              static_cast<double>(owed) / 2, 1e3);
  EXPECT_EQ(account.OwedNs(s, 100, 2 + owed + 1), 0u);
  account.Begin(owed, 1e9);
  EXPECT_EQ(account.OwedNs({500, 500, 0}, 1, owed), kProcessTerms.longest_ns);
}

TEST(PriceLaw, TheReserveIsForSaleAtTheHighestPrice) {
  const Supply none{1000, 1000, 0};
  const double most = (kMemoryTerms.begins - kMemoryTerms.reserve) * none.limit;
  EXPECT_DOUBLE_EQ(Income(none, {0, 100}, kMemoryTerms), most / kMemoryTerms.floor_s);
  EXPECT_LT(PriceOf(none, {0, 100}, kMemoryTerms), 1e9);
}

}  // namespace
}  // namespace strata
