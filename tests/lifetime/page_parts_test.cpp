// The parts of a shard by themselves: the record of a huge page, lists of deadlines, the search
// among active pages, and the directory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "fake_outside.h"

namespace strata {
namespace {

using test::kMs;

TEST(HugeBlockPage, FindsAlignedRunsAsBlockByBlock) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    HugeBlockPage page;
    bool taken[kBlocksPerPage] = {};
    for (unsigned i = random() % 60; i > 0; --i) {
      const size_t at = random() % kBlocksPerPage, n = 1 + random() % 8;
      if (at + n > kBlocksPerPage || std::any_of(taken + at, taken + at + n, std::identity()))
        continue;
      page.Take(at, n, Stay::kShorter);
      std::fill(taken + at, taken + at + n, true);
      EXPECT_EQ(page.ObjectBytes(at), n * kBlockSize);
      if (n > 1) {
        EXPECT_EQ(page.ObjectBytes(at + n - 1), 0u);
      }
    }
    const size_t n = 1 + random() % 40, align = size_t{1} << random() % 6;
    size_t expected = 0;
    while (expected + n <= kBlocksPerPage &&
           std::any_of(taken + expected, taken + expected + n, std::identity())) {
      expected += align;
    }
    if (expected + n > kBlocksPerPage) expected = kBlocksPerPage;
    ASSERT_EQ(page.FindFree(n, align), expected);
    if (align == 1) {
      ASSERT_EQ(page.LongestFree() >= n, expected < kBlocksPerPage);
    }
  }
}

TEST(HugeBlockPage, KnowsWhatRunsOverItsEnds) {
  HugeBlockPage first, second;
  const size_t bytes = 200 * kBlockSize;
  first.Take(100, 56, Stay::kResidual);
  first.TakeUntilEnd(156, bytes, Stay::kResidual);
  second.TakeOn(100, Part::kLast, Stay::kResidual);
  EXPECT_EQ(first.ObjectBytes(156), bytes);
  EXPECT_EQ(first.ObjectBytes(157), 0u);
  EXPECT_EQ(second.ObjectBytes(0), 0u) << "it began before";
  second.Take(100, 1, Stay::kResidual);
  EXPECT_EQ(second.ObjectBytes(100), kBlockSize);
  first.Give(156, 100);
  second.Give(0, 100);
  EXPECT_EQ(first.ObjectBytes(156), 0u);
  second.Take(0, 2, Stay::kShorter);
  EXPECT_EQ(second.ObjectBytes(0), 2 * kBlockSize);
  EXPECT_FALSE(second.IsResidual(0));
  second.MakeAllResidual();
  EXPECT_TRUE(second.IsResidual(0));
}

TEST(DeadlineLists, AreInOrderOnEachRungAndTogether) {
  DeadlineLists lists;
  HugeBlockPage a, b, c;
  b.rung = 1;
  EXPECT_EQ(lists.Next(), DeadlineLists::kNever);
  lists.Add(b, 0);
  lists.Add(a, 10 * kMs);
  lists.Add(c, 15 * kMs);
  EXPECT_EQ(a.deadline, 30 * kMs);
  EXPECT_EQ(b.deadline, 200 * kMs);
  EXPECT_EQ(lists.Next(), a.deadline);
  EXPECT_EQ(lists.Due(30 * kMs - 1), nullptr);
  EXPECT_EQ(lists.Due(36 * kMs), &a);
  lists.Remove(a);
  EXPECT_EQ(lists.Due(36 * kMs), &c);
  lists.Remove(c);
  EXPECT_EQ(lists.Due(199 * kMs), nullptr);
  EXPECT_EQ(lists.Due(200 * kMs), &b);
}

TEST(DeadlineLists, BearAClockThatGoesBack) {
  DeadlineLists lists;
  HugeBlockPage a, b;
  lists.Add(a, 1000 * kMs);
  lists.Add(b, 10 * kMs);
  EXPECT_EQ(b.deadline, a.deadline);
  EXPECT_EQ(lists.Due(100 * kMs), nullptr);
  EXPECT_EQ(lists.Due(a.deadline), &a);
}

TEST(ActivePages, TakesTheTightestRun) {
  ActivePages active;
  HugeBlockPage wide, tight;
  wide.rung = tight.rung = 2;
  tight.Take(0, 250, Stay::kResidual);
  wide.Take(0, 1, Stay::kResidual);
  active.Add(wide);
  active.Add(tight);
  EXPECT_TRUE(active.MayHave(2, 255));
  EXPECT_FALSE(active.MayHave(1, 1));
  EXPECT_EQ(active.Find(2, 4, 1).page, &tight);
  EXPECT_EQ(active.Find(2, 4, 1).at, 250u);
  EXPECT_EQ(active.Find(2, 7, 1).page, &wide) << "six are too few";
  EXPECT_EQ(active.Find(2, 256, 1).page, nullptr);
  tight.Take(250, 6, Stay::kShorter);
  active.Reorder(tight, -6);
  EXPECT_EQ(active.Find(2, 1, 1).page, &wide);
  active.Remove(wide);
  EXPECT_FALSE(active.MayHave(2, 1));
}

TEST(ActivePages, CountsWhatIsFreeOnLongerRungs) {
  ActivePages active;
  HugeBlockPage one, other;
  one.rung = 2;
  other.rung = 3;
  one.Take(0, 250, Stay::kResidual);
  other.Take(0, 1, Stay::kResidual);
  active.Add(one);
  active.Add(other);
  EXPECT_EQ(active.GapsAbove(1), 6u + 255u);
  EXPECT_EQ(active.GapsAbove(2), 255u);
  EXPECT_EQ(active.GapsAbove(3), 0u);
  one.Give(0, 10);
  active.Reorder(one, 10);
  EXPECT_EQ(active.GapsAbove(1), 16u + 255u);
  active.Remove(other);
  EXPECT_EQ(active.GapsAbove(1), 16u);
  active.Remove(one);
  EXPECT_EQ(active.GapsAbove(1), 0u);
}

TEST(PageDirectory, LeadsToRecordsAndToNullElsewhere) {
  test::FakeMetadata metadata;
  MetadataArena arena(test::FakeMetadata::Map);
  const auto directory = std::make_unique<PageDirectory>();
  HugeBlockPage page;
  const uintptr_t base = uintptr_t{0x7f12'3460'0000};
  EXPECT_EQ(directory->Find(base), nullptr);
  ASSERT_TRUE(directory->Prepare(base, kHugePageSize, arena));
  EXPECT_EQ(directory->Find(base), nullptr);
  directory->Set(base, &page);
  EXPECT_EQ(directory->Find(base), &page);
  EXPECT_EQ(directory->Find(base + kHugePageSize - 1), &page);
  EXPECT_EQ(directory->Find(base - 1), nullptr);
  EXPECT_EQ(directory->Find(base + kHugePageSize), nullptr);
  EXPECT_EQ(directory->Find(base | uintptr_t{1} << 63), nullptr);
  test::FakeMetadata::fail = true;
  EXPECT_FALSE(directory->Prepare(uintptr_t{1} << 40, kHugePageSize, arena) &&
               directory->Prepare(uintptr_t{1} << 41, kHugePageSize, arena) &&
               directory->Prepare(uintptr_t{1} << 42, kHugePageSize, arena) &&
               directory->Prepare(uintptr_t{1} << 43, kHugePageSize, arena));
  test::FakeMetadata::fail = false;
}

TEST(Ladder, HasTenTimesEachStep) {
  EXPECT_EQ(BoundNs(0), 10 * kMs);
  for (Rung r = 1; r < kRungs; ++r) EXPECT_EQ(BoundNs(r), 10 * BoundNs(r - 1));
  EXPECT_EQ(RungOf(LifetimeClass::kUnder10Ms), 0);
  EXPECT_EQ(RungOf(LifetimeClass::kUnder1000S), 5);
  EXPECT_EQ(RungOf(LifetimeClass::kLong), RungOf(LifetimeClass::kForever));
}

// All threads read the count, so it is written no more once it says enough.
TEST(PageShard, CountsMeetingsUntilTheyAreEnough) {
  using Supply = HugePageSupply<test::FakeSource, test::FakeClock>;
  test::FakeMetadata metadata;
  test::FakeSource source;
  Supply supply(source, test::FakeMetadata::Map);
  using Shard = PageShard<Supply, SparePage::kNone>;
  auto shard = std::make_unique<Shard>();
  const BlockRequest one{1, 1, 3, BlockUse::kObject};
  const uintptr_t page = shard->TakeOpen(one, supply, Fresh::kAsNeeded);
  for (size_t i = 1; i < kBlocksPerPage; ++i) shard->TakeOpen(one, supply, Fresh::kAsNeeded);
  ASSERT_TRUE(shard->FreeObject(supply.PageOf(page), page + kBlockSize, supply));
  const auto meet = [&] {
    std::atomic<bool> held{false};
    std::thread other([&] {
      LockHolder hold(shard->lock());
      held = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    while (!held) std::this_thread::yield();
    // The free block isn't at a multiple of two, so nothing else changes.
    EXPECT_EQ(shard->TakeRecycled({1, 2, 0, BlockUse::kObject}), 0u);
    other.join();
  };
  while (!shard->WasMetAt()) meet();
  std::vector<unsigned char> before(sizeof(Shard));
  memcpy(before.data(), static_cast<void*>(shard.get()), sizeof(Shard));
  for (int i = 0; i < 3; ++i) meet();
  EXPECT_EQ(memcmp(before.data(), static_cast<void*>(shard.get()), sizeof(Shard)), 0);
}

}  // namespace
}  // namespace strata
