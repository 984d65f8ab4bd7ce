// The states and rungs of huge pages, one transition after the other, with objects of whole blocks:
// what the table of LLAMA's section 3 says, on a clock that the test moves.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fake_outside.h"

namespace strata {
namespace {

using test::FakeClock;
using test::kMs;

constexpr LifetimeClass kMs10 = LifetimeClass::kUnder10Ms;
constexpr LifetimeClass kMs100 = LifetimeClass::kUnder100Ms;
constexpr LifetimeClass kS1 = LifetimeClass::kUnder1S;
constexpr LifetimeClass kS10 = LifetimeClass::kUnder10S;

class PageStates : public testing::Test, protected test::HeapOnFakes<> {
 protected:
  void* Blocks(size_t n, LifetimeClass c) { return Take(n * kBlockSize, c); }
  // A page full of objects of `each` blocks, which makes it active.
  std::vector<void*> FillPage(size_t each, LifetimeClass c) {
    std::vector<void*> objects;
    for (size_t i = 0; i < kBlocksPerPage / each; ++i) objects.push_back(Blocks(each, c));
    return objects;
  }
  static uintptr_t PageOf(const void* p) {
    return reinterpret_cast<uintptr_t>(p) & ~(kHugePageSize - 1);
  }
  LifetimeStats stats() { return heap.Stats(); }
};

TEST_F(PageStates, OneOpenPageForEachRung) {
  void* a = Blocks(1, kMs10);
  void* b = Blocks(3, kMs10);
  void* c = Blocks(1, kS1);
  EXPECT_EQ(PageOf(a), PageOf(b));
  EXPECT_NE(PageOf(a), PageOf(c));
  EXPECT_EQ(stats().open_pages[0], 1u);
  EXPECT_EQ(stats().open_pages[2], 1u);
  EXPECT_EQ(stats().huge_pages(), 2u);
  EXPECT_EQ(heap.RungAt(c), 2);
}

TEST_F(PageStates, AnOpenPageIsOnlyBumpedThrough) {
  void* a = Blocks(1, kMs10);
  Blocks(1, kMs10);
  Free(a);
  EXPECT_NE(Blocks(1, kMs10), a);
  EXPECT_EQ(stats().open_pages[0], 1u);
}

// The free blocks of an open page are for nobody, of whatever rung.
TEST_F(PageStates, AnOpenPageIsNoCandidate) {
  void* long_lived = Blocks(1, kS10);
  Free(Blocks(100, kS10));
  EXPECT_NE(PageOf(Blocks(1, kMs10)), PageOf(long_lived));
}

TEST_F(PageStates, AFullPageBecomesActiveAndAnEmptyOneGoesAtOnce) {
  std::vector<void*> objects = FillPage(2, kMs100);
  EXPECT_EQ(stats().open_pages[1], 0u);
  EXPECT_EQ(stats().active_pages[1], 1u);
  EXPECT_EQ(source.pages(), 1u);
  for (void* p : objects) Free(p);
  EXPECT_EQ(source.pages(), 0u);
  EXPECT_EQ(stats().huge_pages(), 0u);
  EXPECT_EQ(stats().pages_freed, 1u);
  EXPECT_EQ(stats().live_blocks, 0u);
}

TEST_F(PageStates, AnEmptyOpenPageGoes) {
  void* short_lived = Blocks(1, kMs10);
  void* long_lived = Blocks(32, kS10);
  FakeClock::Advance(101 * kMs);
  Free(long_lived);
  EXPECT_EQ(stats().open_pages[3], 0u);
  EXPECT_EQ(source.pages(), 1u);
  Free(short_lived);
  EXPECT_EQ(source.pages(), 0u);
  EXPECT_EQ(stats().pages_freed, 2u);
  EXPECT_EQ(stats().live_blocks, 0u);
}

// Objects that come and go one at a time need one page, and no visit to the source each.
TEST_F(PageStates, AnEmptyOpenPageBeginsAnewIfItWasOpenedJustNow) {
  void* first = Blocks(1, kMs10);
  FakeClock::Advance(100 * kMs);
  Free(first);
  EXPECT_EQ(source.pages(), 1u);
  for (size_t i = 0; i < 2 * kBlocksPerPage; ++i) {
    void* p = Blocks(1, kMs10);
    EXPECT_EQ(p, first);
    Free(p);
  }
  EXPECT_EQ(stats().pages_opened, 1u);
}

// A row was taken for objects that want one: they would take one after the other.
TEST_F(PageStates, AnEmptyOpenPageInFrontOfOthersBeginsAnew) {
  void* first = Blocks(100, kS10);
  EXPECT_EQ(source.pages(), 2u);
  FakeClock::Advance(101 * kMs);
  Free(first);
  EXPECT_EQ(source.pages(), 2u);
  EXPECT_EQ(Blocks(100, kS10), first);
}

TEST_F(PageStates, ShorterObjectsFillGapsOfLongerPages) {
  std::vector<void*> objects = FillPage(1, kS1);
  Free(objects[10]);
  Free(objects[11]);
  EXPECT_EQ(Blocks(2, kMs10), objects[10]);
  EXPECT_EQ(stats().recycled_blocks, 2u);
  // Those of its own rung, or a longer one, do not.
  Free(objects[20]);
  EXPECT_NE(Blocks(1, kS1), objects[20]);
  EXPECT_NE(Blocks(1, kS10), objects[20]);
  EXPECT_EQ(Blocks(1, kMs100), objects[20]);
}

TEST_F(PageStates, LargeObjectsTryTheNextRungAndSpansTheLongest) {
  std::vector<void*> next = FillPage(2, kMs100), longest = FillPage(2, kS10);
  Free(next[5]);
  Free(longest[5]);
  EXPECT_EQ(Blocks(2, kMs10), next[5]);
  Free(next[6]);
  EXPECT_EQ(PageOf(Take(64, kMs10)), PageOf(longest[0]));
}

TEST_F(PageStates, WithoutResidualBlocksAPageIsDemoted) {
  std::vector<void*> objects = FillPage(1, kS1);
  Free(objects[0]);
  void* guest = Blocks(1, kMs10);
  ASSERT_EQ(guest, objects[0]);
  for (size_t i = 1; i < objects.size(); ++i) Free(objects[i]);
  EXPECT_EQ(heap.RungAt(guest), 1);
  EXPECT_EQ(stats().demotions, 1u);
  // The guest is residual now: it alone keeps the rung, and when it goes, so does the page.
  void* second = Blocks(1, kMs10);
  EXPECT_EQ(PageOf(second), PageOf(guest));
  Free(guest);
  EXPECT_EQ(heap.RungAt(second), 0);
  EXPECT_EQ(stats().demotions, 2u);
  Free(second);
  EXPECT_EQ(source.pages(), 0u);
}

TEST_F(PageStates, ADemotionSetsANewDeadline) {
  std::vector<void*> objects = FillPage(1, kS1);
  Free(objects[0]);
  void* guest = Blocks(1, kMs10);
  FakeClock::Advance(1900 * kMs);
  for (size_t i = 1; i < objects.size(); ++i) Free(objects[i]);
  FakeClock::Advance(199 * kMs);
  heap.Tick(FakeClock::now);
  EXPECT_EQ(heap.RungAt(guest), 1);
  FakeClock::Advance(2 * kMs);
  heap.Tick(FakeClock::now);
  EXPECT_EQ(heap.RungAt(guest), 2);
}

TEST_F(PageStates, ADeadlinePassedPromotes) {
  std::vector<void*> objects = FillPage(1, kMs10);
  Free(objects[7]);
  FakeClock::Advance(19 * kMs);
  heap.Tick(FakeClock::now);
  EXPECT_EQ(heap.RungAt(objects[0]), 0);
  EXPECT_NE(Blocks(1, kMs10), objects[7]) << "the shortest rung's gaps are for nobody";
  FakeClock::Advance(2 * kMs);
  heap.Tick(FakeClock::now);
  EXPECT_EQ(heap.RungAt(objects[0]), 1);
  EXPECT_EQ(stats().promotions, 1u);
  EXPECT_EQ(Blocks(1, kMs10), objects[7]);
  // Residual blocks stay so: the page is not demoted while one lives.
  for (size_t i = 1; i < objects.size(); ++i) {
    if (i != 7) Free(objects[i]);
  }
  EXPECT_EQ(heap.RungAt(objects[0]), 1);
  Free(objects[0]);
  EXPECT_EQ(heap.RungAt(objects[7]), 0);
}

TEST_F(PageStates, ClimbsToTheLongestAndStays) {
  std::vector<void*> objects = FillPage(1, kMs10);
  for (Rung r = 0; r < kLongest; ++r) {
    EXPECT_EQ(heap.RungAt(objects[0]), r);
    FakeClock::Advance(2 * BoundNs(r) + 1);
    heap.Tick(FakeClock::now);
  }
  EXPECT_EQ(heap.RungAt(objects[0]), kLongest);
  FakeClock::Advance(2 * BoundNs(kLongest) + 1);
  heap.Tick(FakeClock::now);
  EXPECT_EQ(heap.RungAt(objects[0]), kLongest);
  EXPECT_EQ(stats().promotions, 6u);
  EXPECT_EQ(stats().deadlines_passed, 7u);
}

TEST_F(PageStates, DeadlinesPassOnSlowPathsWithoutATick) {
  std::vector<void*> objects = FillPage(1, kMs10);
  FakeClock::Advance(21 * kMs);
  Free(Blocks(1, kS10));
  EXPECT_EQ(heap.RungAt(objects[0]), 1);
}

TEST_F(PageStates, ObjectsRunOverPageEnds) {
  const size_t n = 150;
  std::vector<void*> objects;
  for (int i = 0; i < 3; ++i) objects.push_back(Blocks(n, kMs100));
  for (size_t i = 1; i < objects.size(); ++i) {
    EXPECT_EQ(static_cast<char*>(objects[i]) - static_cast<char*>(objects[i - 1]),
              static_cast<ptrdiff_t>(n * kBlockSize));
  }
  EXPECT_EQ(heap.SizeOf(objects[1]), n * kBlockSize);
  EXPECT_EQ(stats().active_pages[1], 1u);
  EXPECT_EQ(stats().open_pages[1], 1u);
  memset(objects[1], 1, n * kBlockSize);
  for (void* p : objects) Free(p);
  EXPECT_EQ(stats().live_blocks, 0u);
  EXPECT_EQ(stats().huge_pages(), 1u) << "the open one";
}

TEST_F(PageStates, ObjectsOfManyPages) {
  void* small = Blocks(1, kS1);
  const size_t size = 5 * kHugePageSize + 3 * kBlockSize;
  void* p = Take(size, kS1);
  memset(p, 1, size);
  EXPECT_EQ(heap.SizeOf(p), size);
  void* behind = Blocks(1, kS1);
  EXPECT_EQ(static_cast<char*>(behind), static_cast<char*>(p) + size);
  Free(p);
  EXPECT_EQ(stats().live_blocks, 2u);
  Free(behind);
  Free(small);
  EXPECT_EQ(stats().live_blocks, 0u);
}

TEST_F(PageStates, AlignsToAnyPowerOfTwo) {
  for (size_t align = 16; align <= size_t{8} << 20; align *= 2) {
    for (size_t size : {1u, 100u, 5000u, 9000u, 300'000u, 5'000'000u}) {
      void* p = Take(size, kS1, align);
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u) << size;
      ASSERT_GE(heap.SizeOf(p), size);
      memset(p, 1, size);
      Free(p);
    }
  }
  EXPECT_EQ(Take(SIZE_MAX, kS1), nullptr);
  EXPECT_EQ(Take(layers::kMaxRequest, kS1), nullptr);
  EXPECT_EQ(Take(1, kS1, size_t{1} << 40), nullptr);
}

TEST_F(PageStates, ARefusalChangesNothing) {
  source.refuse_above = kHugePageSize;
  void* p = Blocks(100, kS1);  // not the row of pages it asked for first
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(source.pages(), 1u);
  EXPECT_EQ(Blocks(5 * kBlocksPerPage, kS1), nullptr);
  EXPECT_EQ(source.pages(), 1u);
  EXPECT_EQ(PageOf(Blocks(1, kS1)), PageOf(p));
}

class SparePages : public testing::Test, protected test::HeapOnFakes<4, SparePage::kOne> {
 protected:
  void FillAndEmpty() {
    std::vector<void*> objects;
    for (size_t i = 0; i < 3 * kBlocksPerPage; ++i) objects.push_back(Take(kBlockSize, kS1));
    for (void* p : objects) Free(p);
  }
};

TEST_F(SparePages, AThreadThatIsAloneKeepsNone) {
  FillAndEmpty();
  EXPECT_EQ(source.pages(), 0u);
  EXPECT_EQ(heap.Stats().held_bytes(), 0u);
}

TEST_F(SparePages, AShardOfSeveralKeepsOneEmptyPage) {
  Meet();
  const size_t before = source.pages(), held = heap.Stats().held_bytes();
  FillAndEmpty();
  EXPECT_EQ(source.pages(), before + 1);
  EXPECT_EQ(heap.Stats().held_bytes(), held + kHugePageSize);
  EXPECT_EQ(heap.Stats().spare_pages, 1u);
  void* again = Take(kBlockSize, kMs10);
  EXPECT_EQ(source.pages(), before + 1);
  EXPECT_EQ(heap.Stats().spare_pages, 0u);
  Free(again);
}

// A spare page of its own doesn't make a shard fetch pages where another has room.
TEST_F(SparePages, NoPageIsFetchedForARowBesideASpareOne) {
  Meet();
  std::vector<void*> objects;
  for (int i = 0; i < 8; ++i) objects.push_back(Take(100 * kBlockSize, kS1));
  for (size_t i = 0; i < objects.size(); i += 2) Free(objects[i]);
  test::FakeCpu::mine = 1;
  Free(Take(kHugePageSize, kS1));
  ASSERT_EQ(heap.Stats().spare_pages, 1u);
  const size_t before = source.pages();
  Take(40 * kBlockSize, kMs10);
  EXPECT_EQ(source.pages(), before);
  EXPECT_EQ(heap.Stats().recycled_blocks, 40u);
  EXPECT_EQ(heap.Stats().spare_pages, 1u);
  test::FakeCpu::mine = 0;
}

using PageStatesDeathTest = PageStates;

TEST_F(PageStatesDeathTest, FindsMisuse) {
  auto* p = static_cast<char*>(Blocks(4, kS1));
  Blocks(1, kS1);
  const char* never = "^strata llama: freed twice, or never a block";
  EXPECT_DEATH(Free(p + kBlockSize), never);
  EXPECT_DEATH(Free(p + 16), never);
  EXPECT_DEATH(Free(&p), never);
  EXPECT_DEATH(heap.SizeOf(p + kBlockSize), never);
  Free(p);
  EXPECT_DEATH(Free(p), never);
}

}  // namespace
}  // namespace strata
