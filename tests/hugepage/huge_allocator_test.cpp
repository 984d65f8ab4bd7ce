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
    const HugeRange r = allocator.Take(HugeLength(n), HugeLength(align));
    if (!r.empty()) map.SetState(r, HugePageState::kLarge);
    return r;
  }
  test::TestArena meta;
  FakeKernel kernel{HugeLength(8192)};
  HugePageMap map{meta.arena(), kernel.window()};
  HugeAllocator<FakeKernel> allocator{kernel, map, {true, HugeLength(4)}};
};

TEST_F(AllocatorTest, GrowsInChunksAndAdvisesAllButTheStart) {
  EXPECT_EQ(Take(1), (HugeRange{HugePageId(0), HugeLength(1)}));
  EXPECT_EQ(kernel.mapped(), HugeLength(16));  // 32 MiB
  EXPECT_EQ(kernel.advice(HugePageId(3)), FakeKernel::Advice::kNone);
  EXPECT_EQ(kernel.advice(HugePageId(4)), FakeKernel::Advice::kHuge);
  EXPECT_EQ(kernel.advise_calls, 1u);
  EXPECT_EQ(Take(16).first, HugePageId(1));  // joins the old chunk and the new one
  EXPECT_EQ(kernel.mapped(), HugeLength(16 + 32));
  EXPECT_EQ(kernel.advice(HugePageId(3)), FakeKernel::Advice::kHuge);  // not small after all
  EXPECT_FALSE(Take(1000).empty());
  EXPECT_GE(kernel.mapped(), HugeLength(1000));
  const HugeLength before = kernel.mapped();
  while (kernel.mapped() == before) Take(100);
  EXPECT_EQ(kernel.mapped() - before, before / 8);
}

TEST_F(AllocatorTest, WithoutMemoryAsksForNoMoreThanItNeeds) {
  kernel.map_limit = HugeLength(20);
  EXPECT_FALSE(Take(16).empty());
  EXPECT_FALSE(Take(4).empty());
  EXPECT_TRUE(Take(1).empty());
  kernel.map_limit = HugeLength(100);
  EXPECT_FALSE(Take(1).empty());
}

TEST_F(AllocatorTest, SkipsWhatSomeoneElseHasMapped) {
  kernel.Occupy({HugePageId(10), HugeLength(1)});
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
  EXPECT_EQ(kernel.mapped(), HugeLength(0));
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
  HugeLength in_use;
  for (int step = 0; step < 6000; ++step) {
    if (random() % 2 == 0 && in_use < HugeLength(4000)) {
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
      if (r.length > HugeLength(1) && random() % 2 == 0) {  // in two parts, the second first
        const HugeLength half = r.length / 2;
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

}  // namespace
}  // namespace strata
