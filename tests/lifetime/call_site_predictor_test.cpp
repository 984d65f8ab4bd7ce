// Lifetimes learned by call site, on a clock that the test moves.
#include "lifetime/call_site_predictor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "fake_outside.h"

namespace strata {
namespace {

using test::FakeClock;
using test::kMs;

class CallSites : public testing::Test {
 protected:
  void* Allocate(uintptr_t site, size_t bytes = 64) {
    last = predictor->ClassOf(bytes, site);
    next_ += 64;
    auto* p = reinterpret_cast<void*>(next_);
    predictor->Allocated(p, bytes, site);
    return p;
  }
  // n objects one after the other, each freed after so long.
  void LiveFor(uintptr_t site, uint64_t ns, int n) {
    for (int i = 0; i < n; ++i) {
      void* p = Allocate(site);
      FakeClock::Advance(ns);
      predictor->Freed(p);
    }
  }

  // Whether anything that threads share is.
  template <class F>
  bool IsWrittenBy(F f) {
    memcpy(before_.data(), static_cast<void*>(predictor.get()), before_.size());
    f();
    return memcmp(before_.data(), static_cast<void*>(predictor.get()), before_.size()) != 0;
  }

  std::unique_ptr<CallSitePredictor<FakeClock>> predictor =
      std::make_unique<CallSitePredictor<FakeClock>>();
  LifetimeClass last = LifetimeClass::kUnknown;

 private:
  uintptr_t next_ = 0x10000;
  std::vector<unsigned char> before_ = std::vector<unsigned char>(sizeof(*predictor));
};

TEST_F(CallSites, KnowNothingAtFirst) {
  EXPECT_EQ(predictor->ClassOf(10, 1), LifetimeClass::kUnknown);
  LiveFor(1, kMs, 7);
  EXPECT_EQ(last, LifetimeClass::kUnknown);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnknown);
}

TEST_F(CallSites, LearnEachItsOwn) {
  LiveFor(1, kMs, 20);
  LiveFor(2, 50 * kMs, 20);
  LiveFor(3, 5000 * kMs, 20);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder10Ms);
  EXPECT_EQ(predictor->Predicted(64, 2), LifetimeClass::kUnder100Ms);
  EXPECT_EQ(predictor->Predicted(64, 3), LifetimeClass::kUnder10S);
  EXPECT_EQ(predictor->Predicted(640, 3), LifetimeClass::kUnknown) << "sizes are told apart";
}

TEST_F(CallSites, AreLongIfOneInTenIs) {
  for (int i = 0; i < 30; ++i) LiveFor(1, i % 10 == 0 ? 500 * kMs : kMs, 1);
  LiveFor(1, kMs, 1000);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder1S);
}

TEST_F(CallSites, AreNotLongForOneInAHundred) {
  for (int i = 0; i < 20'000; ++i) LiveFor(1, i % 6400 == 63 ? 500 * kMs : kMs, 1);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder10Ms);
}

TEST_F(CallSites, KeepTheLongerWhenTheyChange) {
  LiveFor(1, 50 * kMs, 32);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder100Ms);
  LiveFor(1, kMs, 20'000);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder100Ms);
  LiveFor(1, 500 * kMs, 20'000);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder1S);
}

TEST_F(CallSites, LearnFromWhatIsAlive) {
  for (int i = 0; i < 16; ++i) Allocate(1);
  FakeClock::Advance(500 * kMs);
  LiveFor(2, kMs, 30'000);  // time passes, and others are watched
  // 30 s by now: a hundred times that is the next class but one.
  EXPECT_GE(predictor->Predicted(64, 1), LifetimeClass::kUnder1000S);
  EXPECT_EQ(predictor->Predicted(64, 2), LifetimeClass::kUnder10Ms);
}

TEST_F(CallSites, ForgetAGuessWhenTheyKnow) {
  std::deque<void*> objects;
  for (int i = 0; i < 16; ++i) objects.push_back(Allocate(1));
  FakeClock::Advance(50 * kMs);
  LiveFor(2, 0, 20'000);
  const LifetimeClass guess = predictor->Predicted(64, 1);
  EXPECT_GT(guess, LifetimeClass::kUnder100Ms);
  for (void* p : objects) predictor->Freed(p);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder100Ms);
}

// A machine that is moved may see its clock go back.
TEST_F(CallSites, AreNotLongBecauseTheClockWentBack) {
  FakeClock::Advance(7'200'000 * kMs);
  LiveFor(1, kMs, 20);
  std::vector<void*> alive;
  for (int i = 0; i < 16; ++i) alive.push_back(Allocate(1));
  FakeClock::now -= 3'600'000 * kMs;
  LiveFor(2, 0, 30'000);  // who is alive is looked at
  for (void* p : alive) predictor->Freed(p);
  LiveFor(1, kMs, 2000);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder10Ms);
}

TEST_F(CallSites, AreNotShortBecauseTheClockWentBack) {
  FakeClock::Advance(7'200'000 * kMs);
  std::vector<void*> alive;
  for (int i = 0; i < 16; ++i) alive.push_back(Allocate(1));
  LiveFor(2, 50 * kMs, 100);  // 5 s pass
  FakeClock::now -= 3'600'000 * kMs;
  for (void* p : alive) predictor->Freed(p);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder10S);
}

// Nobody looked, so nothing ran that could have freed them.
TEST_F(CallSites, AreNotLongBecauseTheProcessWasStopped) {
  std::vector<void*> alive;
  for (int i = 0; i < 16; ++i) alive.push_back(Allocate(1));
  FakeClock::Advance(60'000 * kMs);
  LiveFor(2, 0, 20'000);  // who is alive is looked at
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnknown);
  for (void* p : alive) predictor->Freed(p);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder10Ms);
}

TEST_F(CallSites, AgeWhileOthersAreAtWork) {
  std::vector<void*> alive;
  for (int i = 0; i < 16; ++i) alive.push_back(Allocate(1));
  LiveFor(2, 20'000 * kMs, 10);
  for (void* p : alive) predictor->Freed(p);
  EXPECT_EQ(predictor->Predicted(64, 1), LifetimeClass::kUnder1000S);
}

// A line that each allocation wrote would go to and fro between two threads of one site.
TEST_F(CallSites, AreLeftAloneByMostObjects) {
  LiveFor(1, kMs, 100);
  int written = 0;
  for (int i = 0; i < 1000; ++i) written += IsWrittenBy([&] { predictor->Freed(Allocate(1)); });
  EXPECT_GT(written, 4) << "some are watched";
  EXPECT_LT(written, 60);
}

// The same where each object is the first of its thread: one in 64 of 3,000, and six deviations.
TEST_F(CallSites, AreLeftAloneByMostThreads) {
  LiveFor(1, kMs, 100);
  int written = 0;
  for (int i = 0; i < 3000; ++i) {
    std::thread([&] { written += IsWrittenBy([&] { predictor->Freed(Allocate(1)); }); }).join();
  }
  EXPECT_GT(written, 6);
  EXPECT_LT(written, 88);
}

// However much is watched of another site beside.
TEST_F(CallSites, AreWatchedByTheirOwnHits) {
  LiveFor(1, kMs, 8000);
  LiveFor(2, kMs, 100);
  int fresh = 0, known = 0;
  for (int i = 0; i < 3000; ++i) {
    LiveFor(1, 0, 50);
    fresh += IsWrittenBy([&] { predictor->Freed(Allocate(2)); });
  }
  for (int i = 0; i < 3000; ++i) known += IsWrittenBy([&] { predictor->Freed(Allocate(1)); });
  EXPECT_GT(fresh, 23) << "one in 64";
  EXPECT_LT(fresh, 80);
  EXPECT_GT(known, 2) << "one in 256";
  EXPECT_LT(known, 32);
}

// Another site may get the place of an object's between the question and the object.
TEST_F(CallSites, CountNoHitsOfTheOneThatHadTheirPlace) {
  LiveFor(1, kMs, 20);
  uintptr_t other = 2;
  while (predictor->ClassOf(64, other), predictor->Predicted(64, 1) != LifetimeClass::kUnknown)
    ++other;
  for (int i = 0; i < 100; ++i) predictor->Allocated(reinterpret_cast<void*>(64 * i + 64), 64, 1);
  LiveFor(other, kMs, 20);
  EXPECT_EQ(predictor->Predicted(64, other), LifetimeClass::kUnder10Ms);
}

TEST_F(CallSites, ServeManyThreads) {
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::deque<void*> objects;
      for (uintptr_t i = 0; i < 30'000; ++i) {
        const uintptr_t site = i % 7 + (i % 1000 == 0 ? i * 4096 : 0);
        const LifetimeClass c = predictor->ClassOf(64, site);
        EXPECT_LE(c, LifetimeClass::kLong);
        objects.push_back(reinterpret_cast<void*>((t << 32) + i * 64));
        predictor->Allocated(objects.back(), 64, site);
        if (objects.size() < 50) continue;
        predictor->Freed(objects.front());
        objects.pop_front();
        FakeClock::Advance(kMs / 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(predictor->Predicted(64, 3), LifetimeClass::kUnknown);
}

// More sites than there is room for: places change hands, nothing else happens.
TEST_F(CallSites, ShareTheTable) {
  for (uintptr_t site = 1; site < 50'000; ++site) LiveFor(site * 4096, kMs, 1);
  LiveFor(7, kMs, 20);
  EXPECT_EQ(predictor->Predicted(64, 7), LifetimeClass::kUnder10Ms);
}

}  // namespace
}  // namespace strata
