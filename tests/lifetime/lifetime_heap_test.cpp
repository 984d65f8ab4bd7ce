// Small objects of LLAMA's heap: spans by rung, the partial and the overflow span, lines that are
// reused when a deadline has passed and only then; threads that end; misuse; and the oscillation of
// the paper's micro-benchmark, a sixteenth as high.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_outside.h"

namespace strata {
namespace {

using test::FakeClock;
using test::kMs;

constexpr LifetimeClass kMs10 = LifetimeClass::kUnder10Ms;
constexpr LifetimeClass kS1 = LifetimeClass::kUnder1S;
constexpr LifetimeClass kForever = LifetimeClass::kForever;

uintptr_t At(const void* p) { return reinterpret_cast<uintptr_t>(p); }
uintptr_t SpanOf(const void* p) { return LineSpan::BaseOf(At(p)); }
uintptr_t PageOf(const void* p) { return At(p) & ~(kHugePageSize - 1); }

class SmallObjects : public testing::Test, protected test::HeapOnFakes<> {
 protected:
  // Lines of one object each, as many as fill `pages` huge pages.
  std::vector<void*> FillPages(size_t pages, LifetimeClass c) {
    std::vector<void*> objects;
    const size_t before = heap.Stats().active_pages[RungOf(c)];
    while (heap.Stats().active_pages[RungOf(c)] < before + pages) {
      for (int i = 0; i < 100; ++i) objects.push_back(Take(128, c));
    }
    return objects;
  }
};

TEST_F(SmallObjects, ClassesAreKeptApart) {
  void* a = Take(40, kMs10);
  void* b = Take(40, kMs10);
  void* c = Take(40, kS1);
  EXPECT_EQ(At(b), At(a) + 48);
  EXPECT_NE(PageOf(a), PageOf(c));
  EXPECT_EQ(heap.SizeOf(a), 48u);
}

TEST_F(SmallObjects, UnknownIsTheShortestAndNeverFreedTheLongest) {
  EXPECT_EQ(heap.RungAt(Take(40, LifetimeClass::kUnknown)), 0);
  EXPECT_EQ(heap.RungAt(Take(40, LifetimeClass::kUnder1000S)), 5);
  EXPECT_EQ(heap.RungAt(Take(40, LifetimeClass::kLong)), 6);
  EXPECT_EQ(heap.RungAt(Take(40, kForever)), 6);
}

TEST_F(SmallObjects, AllSizesAndAlignments) {
  for (size_t size = 0; size <= 20'000; size += size < 300 ? 1 : 97) {
    for (size_t align = 1; align <= 8192; align *= 8) {
      auto* p = static_cast<char*>(Take(size, kS1, align));
      ASSERT_EQ(At(p) % std::max<size_t>(align, 16), 0u);
      ASSERT_GE(heap.SizeOf(p), std::max<size_t>(size, 1));
      memset(p, 1, heap.SizeOf(p));
      Free(p);
    }
  }
  heap.Flush();
  EXPECT_EQ(heap.Stats().live_blocks, 0u);
}

TEST_F(SmallObjects, AnEmptySpanIsUsedAgainAtOnceButAPartialOneIsNot) {
  // kS1's page is active, and some of it comes free.
  std::vector<void*> objects = FillPages(1, kS1);
  const uintptr_t page = PageOf(objects[0]), empty = SpanOf(objects[1000]),
                  partial = SpanOf(objects[2000]);
  ASSERT_NE(empty, partial);
  for (size_t i = 0; i < objects.size(); ++i) {
    const bool kept = SpanOf(objects[i]) == partial ? i % 2 == 0 : SpanOf(objects[i]) != empty;
    if (!kept) Free(objects[i]);
  }
  // What lives shorter goes into the empty span, then to pages of its own.
  std::vector<void*> shorter;
  for (int i = 0; i < 300; ++i) shorter.push_back(Take(128, kMs10));
  EXPECT_EQ(SpanOf(shorter[0]), empty);
  for (void* p : shorter) EXPECT_TRUE(SpanOf(p) == empty || PageOf(p) != page);
  EXPECT_EQ(heap.Stats().recycled_spans, 0u);
}

TEST_F(SmallObjects, ADeadlineMakesPartialSpansReusable) {
  std::vector<void*> objects = FillPages(1, kS1);
  const uintptr_t partial = SpanOf(objects[2000]);
  std::vector<uintptr_t> holes;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (SpanOf(objects[i]) != partial || i % 2 == 0) continue;
    holes.push_back(At(objects[i]));
    Free(objects[i]);
  }
  FakeClock::Advance(2001 * kMs);
  heap.Tick(FakeClock::now);
  EXPECT_EQ(heap.RungAt(objects[0]), 3);
  std::vector<uintptr_t> reused;
  for (size_t i = 0; i < holes.size(); ++i) reused.push_back(At(Take(128, kMs10)));
  EXPECT_EQ(reused, holes) << "line by line";
  EXPECT_EQ(heap.Stats().recycled_spans, 1u);
  EXPECT_EQ(heap.Stats().recycled_lines, holes.size());
  // Two lines are free between none that are not: a larger object does not fit and takes a new one.
  EXPECT_NE(SpanOf(Take(256, kMs10)), partial);
}

TEST_F(SmallObjects, ObjectsOfSeveralLinesPassByToTheOverflowSpan) {
  std::vector<void*> objects = FillPages(1, kS1);
  for (size_t i = 0; i < objects.size(); i += 2) Free(objects[i]);
  FakeClock::Advance(2001 * kMs);
  void* small = Take(16, kMs10);
  EXPECT_EQ(PageOf(small), PageOf(objects[0])) << "a partial span";
  void* larger = Take(300, kMs10);
  EXPECT_NE(SpanOf(larger), SpanOf(small));
  EXPECT_EQ(SpanOf(Take(300, kMs10)), SpanOf(larger)) << "the overflow span";
  EXPECT_EQ(SpanOf(Take(16, kMs10)), SpanOf(small)) << "the partial one is still first";
}

TEST_F(SmallObjects, AThreadThatEndsClosesItsSpans) {
  void* kept = nullptr;
  std::thread([&] {
    kept = Take(100, kS1);
    Free(Take(100, kMs10));
  }).join();
  EXPECT_EQ(heap.Stats().live_blocks, kSpanBlocks);
  Free(kept);
  EXPECT_EQ(heap.Stats().live_blocks, 0u);
}

// Threads share the first shard until they have met at its lock.
TEST_F(SmallObjects, AThreadThatIsAloneUsesOneShard) {
  void* first = Take(20'000, kS1);
  test::FakeCpu::mine = 1;
  EXPECT_EQ(PageOf(Take(20'000, kS1)), PageOf(first));
  Meet();
  test::FakeCpu::mine = 1;
  EXPECT_NE(PageOf(Take(20'000, kS1)), PageOf(first));
  test::FakeCpu::mine = 0;
}

// Each shard has open pages of its own, but what is free on longer rungs serves all.
TEST_F(SmallObjects, ShardsShareWhatIsFree) {
  Meet();
  std::vector<void*> objects = FillPages(2, kS1);
  for (void* p : objects) {
    if (SpanOf(p) / kSpanSize % 16 != 0) Free(p);
  }
  void* first = Take(20'000, kS1);
  test::FakeCpu::mine = 1;
  const uintptr_t there = PageOf(Take(128, kMs10));
  EXPECT_TRUE(there == PageOf(objects[0]) || there == PageOf(objects[20'000]));
  EXPECT_NE(PageOf(Take(20'000, kS1)), PageOf(first)) << "an open page of its own";
  test::FakeCpu::mine = 0;
  EXPECT_EQ(heap.Stats().open_pages[RungOf(kS1)], 2u);
}

// They would wait for each other at each object that comes and goes there.
TEST_F(SmallObjects, ShardsDoNotMeetOverLittle) {
  Meet();
  std::vector<void*> objects = FillPages(1, kS1);
  const uintptr_t empty = SpanOf(objects[1000]);
  for (void* p : objects) {
    if (SpanOf(p) == empty) Free(p);
  }
  test::FakeCpu::mine = 1;
  const uintptr_t own = PageOf(Take(10'000, kMs10));
  EXPECT_NE(own, PageOf(objects[0]));
  test::FakeCpu::mine = 0;
  EXPECT_EQ(SpanOf(Take(128, kMs10)), empty) << "its own shard uses it";
}

// Each may keep little, but all together less than the page that they would spare.
TEST_F(SmallObjects, WhatOtherShardsKeepAddsUp) {
  Meet();
  std::vector<void*> first, second;
  for (size_t i = 0; i < kBlocksPerPage; ++i) first.push_back(Take(kBlockSize, kS1));
  test::FakeCpu::mine = 2;
  for (size_t i = 0; i < kBlocksPerPage; ++i) second.push_back(Take(kBlockSize, kS1));
  for (size_t i = 0; i < kBlocksPerPage / 2; ++i) Free(first[i]);
  for (size_t i = 1; i < kBlocksPerPage / 2; ++i) Free(second[i]);
  test::FakeCpu::mine = 1;
  const size_t pages = source.pages();
  Take(kBlockSize, kMs10);
  EXPECT_EQ(source.pages(), pages + 1) << "there are 255 blocks";
  Free(second[0]);
  const uintptr_t there = PageOf(Take(kBlockSize, LifetimeClass::kUnder100Ms));
  EXPECT_TRUE(there == PageOf(first[0]) || there == PageOf(second[0])) << "there are 256";
  EXPECT_EQ(source.pages(), pages + 1);
  test::FakeCpu::mine = 0;
}

// A span goes back to the shard it came from, whoever frees.
TEST_F(SmallObjects, FreesGoHome) {
  Meet();
  std::vector<void*> objects = FillPages(1, kS1);
  heap.Flush();
  test::FakeCpu::mine = 1;
  for (void* p : objects) Free(p);
  test::FakeCpu::mine = 0;
  EXPECT_EQ(heap.Stats().live_blocks, 0u);
  EXPECT_EQ(heap.Stats().active_pages[RungOf(kS1)], 0u);
}

TEST_F(SmallObjects, WithoutMemoryItSaysSo) {
  source.refuse_above = 1;
  EXPECT_EQ(Take(100, kS1), nullptr);
  EXPECT_EQ(Take(10'000, kS1), nullptr);
  source.refuse_above = 0;
  EXPECT_NE(Take(100, kS1), nullptr);
}

TEST(SmallObjectsWithoutMetadata, SaysSo) {
  test::HeapOnFakes<> fakes;
  test::FakeMetadata::fail = true;
  EXPECT_EQ(fakes.Take(100, kS1), nullptr);
  EXPECT_EQ(fakes.source.pages(), 0u);
  test::FakeMetadata::fail = false;
  EXPECT_NE(fakes.Take(100, kS1), nullptr);
}

using SmallObjectsDeathTest = SmallObjects;

TEST_F(SmallObjectsDeathTest, FindsMisuse) {
  auto* p = static_cast<char*>(Take(100, kS1));
  Take(100, kS1);
  const char* never = "^strata llama: freed twice, or never a block";
  EXPECT_DEATH(Free(p + 16), never);
  EXPECT_DEATH(Free(&never), never);
  EXPECT_DEATH(Free(reinterpret_cast<void*>(0x1000)), never);
  EXPECT_DEATH(Free(reinterpret_cast<void*>(uintptr_t{1} << 62)), never);
  Free(p);
  EXPECT_DEATH(Free(p), "^strata llama: a block was freed twice");
  EXPECT_DEATH(heap.SizeOf(p), never);
}

// Objects of 64 bytes, up to 64 MiB of them and then none, and one in 10,000 that stays and is
// labelled so: at the low no page but the open ones and those of the survivors is left.
TEST_F(SmallObjects, LabelledSurvivorsHoldNothingElse) {
  constexpr size_t kSwing = (size_t{64} << 20) / 64;
  size_t made = 0, survivors = 0;
  for (int cycle = 0; cycle < 4; ++cycle) {
    std::vector<void*> objects;
    for (size_t i = 0; i < kSwing; ++i) {
      const bool survives = ++made % 10'000 == 0;
      void* p = Take(64, survives ? kForever : LifetimeClass::kUnder10S);
      ASSERT_NE(p, nullptr);
      survives ? void(++survivors) : objects.push_back(p);
    }
    EXPECT_LE(heap.Stats().huge_pages(), (kSwing * 64 >> kHugePageShift) * 17 / 16 + 2);
    for (void* p : objects) Free(p);
    FakeClock::Advance(1000 * kMs);
    EXPECT_LE(heap.Stats().huge_pages(), 2u);
  }
  EXPECT_EQ(survivors, 419u);
}

// The same without labels, which shows that it is them.
TEST_F(SmallObjects, UnlabelledSurvivorsHoldNearlyAll) {
  constexpr size_t kSwing = (size_t{64} << 20) / 64;
  std::vector<void*> objects;
  for (size_t i = 0; i < kSwing; ++i) {
    void* p = Take(64, LifetimeClass::kUnder10S);
    if (i % 10'000 != 0) objects.push_back(p);
  }
  const size_t peak = heap.Stats().huge_pages();
  for (void* p : objects) Free(p);
  EXPECT_GE(heap.Stats().huge_pages(), peak - 1);
}

}  // namespace
}  // namespace strata
