// HugeAllocator and HugePageMap's trees: growth by chunks, advice, foreign mappings, merging,
// alignment; and random use against a model.
#include "hugepage/huge_allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

struct AllocatorTest : testing::Test {
  HugeRange Take(size_t n, size_t align = 1) {
    const HugeRange r = allocator.Take(HugePages(n), HugePages(align));
    if (!r.empty()) map.SetState(r, HugePageState::kLarge);
    return r;
  }
  test::TestArena meta;
  FakeKernel kernel{HugePages(8192)};
  HugePageMap map{meta.arena(), kernel.window()};
  HugeAllocator<FakeKernel> allocator{kernel, map, {true, HugePages(4)}};
};

TEST_F(AllocatorTest, GrowsInChunksAndAdvisesAllButTheStart) {
  EXPECT_EQ(Take(1), (HugeRange{HugePageId(0), HugePages(1)}));
  EXPECT_EQ(kernel.mapped(), HugePages(16));  // 32 MiB
  EXPECT_EQ(kernel.advice(HugePageId(3)), FakeKernel::Advice::kNone);
  EXPECT_EQ(kernel.advice(HugePageId(4)), FakeKernel::Advice::kHuge);
  EXPECT_EQ(kernel.advise_calls, 1u);
  EXPECT_EQ(Take(16).first, HugePageId(1));  // joins the old chunk and the new one
  EXPECT_EQ(kernel.mapped(), HugePages(16 + 32));
  EXPECT_EQ(kernel.advice(HugePageId(3)), FakeKernel::Advice::kHuge);  // not small after all
  EXPECT_FALSE(Take(1000).empty());
  EXPECT_GE(kernel.mapped(), HugePages(1000));
  const HugePages before = kernel.mapped();
  while (kernel.mapped() == before) Take(100);
  EXPECT_EQ(kernel.mapped() - before, before / 8);
}

TEST_F(AllocatorTest, WithoutMemoryAsksForNoMoreThanItNeeds) {
  kernel.map_limit = HugePages(20);
  EXPECT_FALSE(Take(16).empty());
  EXPECT_FALSE(Take(4).empty());
  EXPECT_TRUE(Take(1).empty());
  kernel.map_limit = HugePages(100);
  EXPECT_FALSE(Take(1).empty());
}

TEST_F(AllocatorTest, SkipsWhatSomeoneElseHasMapped) {
  kernel.Occupy({HugePageId(10), HugePages(1)});
  const HugeRange r = Take(16);
  ASSERT_FALSE(r.empty());
  EXPECT_GT(r.first, HugePageId(10));
  EXPECT_EQ(map[HugePageId(10)].state, HugePageState::kUnmapped);
}

TEST_F(AllocatorTest, FailsCleanlyAtTheEndOfTheWindow) {
  EXPECT_TRUE(Take(8193).empty());
  EXPECT_FALSE(Take(8000).empty());
  EXPECT_FALSE(Take(192).empty());
  EXPECT_TRUE(Take(1).empty());
}

TEST_F(AllocatorTest, FailsCleanlyWithoutMetadata) {
  meta.fail = true;
  EXPECT_TRUE(Take(1).empty());
  EXPECT_EQ(kernel.mapped(), HugePages(0));
  meta.fail = false;
  EXPECT_FALSE(Take(1).empty());
}

TEST_F(AllocatorTest, AlignsToAGigabyte) {
  Take(3);
  const HugeRange r = Take(5, 512);
  ASSERT_FALSE(r.empty());
  EXPECT_EQ(r.first.raw() % 512, 0u);
  EXPECT_EQ(Take(1).first, HugePageId(3));  // what was skipped is not lost
}

TEST_F(AllocatorTest, RandomUseKeepsTheModel) {
  std::mt19937 random(3);
  std::vector<HugeRange> taken;
  std::vector<bool> used(kernel.window().raw());
  HugePages in_use;
  for (int step = 0; step < 6000; ++step) {
    if (random() % 2 == 0 && in_use < HugePages(4000)) {
      const size_t align = random() % 8 == 0 ? size_t{1} << random() % 6 : 1;
      const HugeRange r = Take(1 + random() % (random() % 8 == 0 ? 90 : 4), align);
      ASSERT_FALSE(r.empty());
      ASSERT_EQ(r.first.raw() % align, 0u);
      for (size_t i = r.first.raw(); i < r.end().raw(); ++i) {
        ASSERT_FALSE(used[i]);
        used[i] = true;
      }
      in_use += r.length;
      taken.push_back(r);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      HugeRange r = taken.back();
      taken.pop_back();
      if (r.length > HugePages(1) && random() % 2 == 0) {  // in two parts, the second first
        const HugePages half = r.length / 2;
        allocator.Give({r.first + half, r.length - half});
        allocator.Give({r.first, half});
      } else {
        allocator.Give(r);
      }
      for (size_t i = r.first.raw(); i < r.end().raw(); ++i) used[i] = false;
      in_use -= r.length;
    }
    ASSERT_EQ(allocator.mapped(), allocator.free() + in_use);
  }
  for (const HugeRange& r : taken) allocator.Give(r);
  EXPECT_EQ(allocator.free(), allocator.mapped());
  EXPECT_EQ(allocator.FreeAt(HugePageId(0)), allocator.mapped());  // all merged again
}

TEST_F(AllocatorTest, TheStartOfASmallHeapIsAdvisedOnceAndNotAgainstItsWill) {
  Take(1);
  map[HugePageId(1)].no_huge = true;  // it was broken
  while (kernel.mapped() == HugePages(16)) Take(1);
  EXPECT_EQ(kernel.advice(HugePageId(0)), FakeKernel::Advice::kHuge);
  EXPECT_EQ(kernel.advice(HugePageId(1)), FakeKernel::Advice::kNone);
  const size_t calls = kernel.advise_calls;
  const HugePages before = kernel.mapped();
  while (kernel.mapped() == before) Take(1);
  EXPECT_EQ(kernel.advise_calls, calls + 1);  // the new chunk, and nothing else
}

TEST_F(AllocatorTest, ChunksHaveAnUpperBound) {
  ASSERT_FALSE(Take(6000).empty());
  const HugePages before = kernel.mapped();
  while (kernel.mapped() == before) Take(1);
  EXPECT_EQ(kernel.mapped() - before, HugePages(512));  // 1 GiB
}

TEST_F(AllocatorTest, WhatCannotFitMapsNothing) {
  EXPECT_TRUE(Take(8193).empty());
  EXPECT_EQ(kernel.mapped(), HugePages(0));
  Take(1);
  const HugePages before = kernel.mapped();
  EXPECT_TRUE(Take(8190).empty());
  EXPECT_EQ(kernel.mapped(), before);
}

}  // namespace
}  // namespace strata
