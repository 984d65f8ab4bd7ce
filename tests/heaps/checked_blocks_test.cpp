// Checked blocks on memory of the test's.
#include "heaps/checked_blocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "../hugepage/test_arena.h"

namespace strata {
namespace {

class CheckedBlocksTest : public testing::Test {
 protected:
  ~CheckedBlocksTest() override {
    for (void* p : raw_) free(p);
  }
  unsigned char* Make(size_t size, size_t align = 16, size_t more = 40) {
    const size_t usable = CheckedBlocks::RawSize(size, align) + more;
    raw_.push_back(aligned_alloc(align, (usable + align - 1) & ~(align - 1)));
    return static_cast<unsigned char*>(blocks_.Add(raw_.back(), usable, size, align, {5, 0, {}}));
  }
  CheckFinding Free(void* p) { return blocks_.Free(p, {6, 0, {}}).finding; }

  test::TestArena arena_;
  CheckedBlocks blocks_{arena_.arena()};
  std::vector<void*> raw_;
};

TEST_F(CheckedBlocksTest, ABlockIsFilledAndAligned) {
  for (size_t align = 16; align <= 4096; align *= 4) {
    unsigned char* p = Make(100, align);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(p[i], CheckedBlocks::kNewByte);
    EXPECT_EQ(blocks_.FindLive(p)->size, 100u);
    EXPECT_EQ(Free(p), CheckFinding::kNone);
    EXPECT_EQ(blocks_.FindLive(p), nullptr);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(p[i], CheckedBlocks::kFreedByte);
  }
}

TEST_F(CheckedBlocksTest, EveryByteBesideABlockIsWatched) {
  for (const int at : {-16, -8, -1, 100, 101, 115, 155}) {
    unsigned char* p = Make(100);
    p[at] ^= 1;
    const CheckVerdict v = blocks_.Free(p, {});
    EXPECT_EQ(v.finding, at < 0 ? CheckFinding::kBeforeStart : CheckFinding::kBeyondEnd) << at;
    EXPECT_EQ(v.at, p + at);
  }
}

TEST_F(CheckedBlocksTest, FreesOfNoBlockAreRefused) {
  unsigned char* p = Make(100);
  EXPECT_EQ(Free(p + 16), CheckFinding::kUnknown);
  EXPECT_EQ(blocks_.Around(p + 16)->user, p);
  EXPECT_EQ(blocks_.Around(&blocks_), nullptr);
  EXPECT_EQ(Free(p), CheckFinding::kNone);
  EXPECT_EQ(Free(p), CheckFinding::kFreedBefore);
}

TEST_F(CheckedBlocksTest, ABlockStaysInQuarantineUntilManyFollowed) {
  CheckVerdict old;
  std::vector<unsigned char*> freed;
  for (size_t i = 0; i <= CheckedBlocks::kMostInQuarantine; ++i) {
    freed.push_back(Make(1, 16, 0));
    EXPECT_EQ(Free(freed.back()), CheckFinding::kNone);
    if (i < CheckedBlocks::kMostInQuarantine) {
      ASSERT_EQ(blocks_.TakeOld(old), nullptr);
    }
  }
  EXPECT_EQ(blocks_.TakeOld(old), freed[0] - 16);
  EXPECT_EQ(freed[0][0], 0);  // wiped
  EXPECT_EQ(Free(freed[0]), CheckFinding::kUnknown);
  EXPECT_EQ(Free(freed[1]), CheckFinding::kFreedBefore);
  EXPECT_EQ(blocks_.TakeOld(old), nullptr);
}

TEST_F(CheckedBlocksTest, AndUntilManyBytesFollowed) {
  CheckVerdict old;
  unsigned char* first = Make(CheckedBlocks::kMostQuarantined / 2);
  Free(first);
  EXPECT_EQ(blocks_.TakeOld(old), nullptr);
  Free(Make(CheckedBlocks::kMostQuarantined / 2));
  EXPECT_EQ(blocks_.TakeOld(old), first - 16);
  EXPECT_EQ(blocks_.TakeOld(old), nullptr);
}

TEST_F(CheckedBlocksTest, ALargeBlockLeavesFirst) {
  CheckVerdict old;
  unsigned char* small = Make(100);
  Free(small);
  unsigned char* large = Make(CheckedBlocks::kMostQuarantined + 1);
  Free(large);
  unsigned char* later = Make(100);
  Free(later);
  EXPECT_EQ(blocks_.TakeOld(old), large - 16);
  EXPECT_EQ(blocks_.TakeOld(old), nullptr);
  for (unsigned char* p : {small, later}) EXPECT_EQ(Free(p), CheckFinding::kFreedBefore);
}

TEST_F(CheckedBlocksTest, AWriteAfterFreeIsFoundWhenItLeaves) {
  CheckVerdict old;
  unsigned char* p = Make(CheckedBlocks::kMostQuarantined + 1);
  Free(p);
  p[70] = 1;
  EXPECT_EQ(blocks_.TakeOld(old), nullptr);
  EXPECT_EQ(old.finding, CheckFinding::kAfterFree);
  EXPECT_EQ(old.at, p + 70);
  EXPECT_EQ(old.block->freed.thread, 6u);
}

TEST(CheckedBlocksHash, SpreadsBlocksAtRegularDistances) {
  constexpr size_t kBlocks = 60000, kBuckets = size_t{1} << 16;
  for (const size_t distance : {48, 64, 80, 96, 128, 192, 512, 1152, 4480, 65536}) {
    std::vector<size_t> bucket(kBuckets);
    size_t before = 0;  // those that are passed on the way to each
    for (size_t i = 0; i < kBlocks; ++i) {
      const auto at = uintptr_t{0x2d5041a00010} + i * distance;
      before += bucket[CheckedBlocks::HashOf(reinterpret_cast<void*>(at)) % kBuckets]++;
    }
    EXPECT_LT(before, kBlocks / 2) << distance;  // 0.46 each if they lie at random
  }
}

TEST_F(CheckedBlocksTest, EachByteOfAFreedBlockIsLookedAt) {
  for (const size_t size : {1, 63, 64, 65, 200}) {
    unsigned char* p = Make(size);
    Free(p);
    for (size_t i = 0; i < size; ++i) {
      p[i] ^= 0x10;
      ASSERT_EQ(blocks_.CheckAll().at, p + i);
      p[i] ^= 0x10;
    }
    ASSERT_EQ(blocks_.CheckAll().finding, CheckFinding::kNone);
  }
}

TEST_F(CheckedBlocksTest, AllAreLookedAtInTheEnd) {
  std::vector<unsigned char*> blocks;
  for (int i = 0; i < 5000; ++i) blocks.push_back(Make(20));
  for (size_t i = 0; i < 2000; ++i) Free(blocks[i]);
  EXPECT_EQ(blocks_.CheckAll().finding, CheckFinding::kNone);
  blocks[4000][20] = 0;
  EXPECT_EQ(blocks_.CheckAll().at, blocks[4000] + 20);
  blocks[4000][20] = CheckedBlocks::kCanary;
  blocks[1000][3] = 0;
  EXPECT_EQ(blocks_.CheckAll().finding, CheckFinding::kAfterFree);
}

}  // namespace
}  // namespace strata
