// The pool of guarded blocks on pages that only keep account of who may touch them.
#include "heaps/guard_pool.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>
#include <vector>

#include "../hugepage/test_arena.h"

namespace strata {
namespace {

// Real memory, which stays open to the test.
struct Account {
  std::set<uintptr_t> open;  // native pages
  uintptr_t start = 0;
  size_t bytes = 0;
  size_t align = 0;
  bool refuse_open = false;
  ClosedPlace when_closed = ClosedPlace::kEmpty;
};

struct FakePages {
  Account* account = nullptr;

  uintptr_t Reserve(size_t bytes, size_t align) {
    if (account == nullptr) return 0;
    void* p = nullptr;
    if (posix_memalign(&p, align, bytes) != 0) return 0;
    account->start = reinterpret_cast<uintptr_t>(p);
    account->bytes = bytes;
    account->align = align;
    return account->start;
  }
  bool Open(uintptr_t at, size_t bytes) {
    EXPECT_EQ(at % kNativePageSize, 0u);
    EXPECT_EQ(bytes % kNativePageSize, 0u);
    if (account->refuse_open) return false;
    for (size_t i = 0; i < bytes; i += kNativePageSize) account->open.insert(at + i);
    return true;
  }
  ClosedPlace Close(uintptr_t at, size_t bytes) {
    EXPECT_GE(at, account->start);
    EXPECT_LE(at + bytes, account->start + account->bytes);
    for (size_t i = 0; i < bytes; i += kNativePageSize) account->open.erase(at + i);
    return account->when_closed;
  }
};

class GuardPoolTest : public testing::Test {
 protected:
  static constexpr size_t kSlots = 8;
  explicit GuardPoolTest(GuardSizes sizes = {kNativePageSize, 2 * kNativePageSize})
      : pool_(sizes, FakePages{&account_}) {
    EXPECT_TRUE(pool_.Init(arena_.arena(), kSlots));
  }
  ~GuardPoolTest() override { free(reinterpret_cast<void*>(account_.start)); }

  char* Take(size_t size, size_t align = 16, uint32_t side = 1) {
    return static_cast<char*>(pool_.Take(size, align, side, event_));
  }
  bool IsOpen(const void* p) const {
    return account_.open.contains(reinterpret_cast<uintptr_t>(p) & ~(kNativePageSize - 1));
  }
  GuardVerdict ExplainAt(const char* p) { return pool_.Explain(reinterpret_cast<uintptr_t>(p)); }

  test::TestArena arena_;
  Account account_;
  GuardPool<FakePages> pool_;
  BlockEvent event_{7, 1, {1234}};
};

// Places of 64 KiB, 16 KiB apart.
class LargeGuardPoolTest : public GuardPoolTest {
 protected:
  static constexpr size_t kMost = 16 * kNativePageSize;
  static constexpr size_t kGap = 4 * kNativePageSize;
  LargeGuardPoolTest() : GuardPoolTest({kMost, kGap}) {}
};

TEST_F(GuardPoolTest, ABlockLiesAtOneEndOfAPageBetweenClosedOnes) {
  for (const uint32_t side : {0u, 1u}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{16}, size_t{100}, size_t{4096}}) {
      char* p = Take(size, 16, side);
      ASSERT_NE(p, nullptr);
      const auto at = reinterpret_cast<uintptr_t>(p);
      EXPECT_EQ(at % 16, 0u);
      if (side == 0) {
        EXPECT_EQ(at % kNativePageSize, 0u);
      }
      if (side == 1 && size != 0) {
        EXPECT_LT(kNativePageSize - (at % kNativePageSize) - size, 16u);
      }
      EXPECT_TRUE(IsOpen(p));
      for (const ptrdiff_t pages : {-2, -1, 1, 2})
        EXPECT_FALSE(IsOpen(p + pages * static_cast<ptrdiff_t>(kNativePageSize)));
      EXPECT_EQ(pool_.SizeOf(p), size);
      EXPECT_EQ(pool_.Free(p, event_).finding, GuardFinding::kNone);
      EXPECT_FALSE(IsOpen(p));
      EXPECT_EQ(pool_.SizeOf(p), 0u);
    }
  }
}

TEST_F(GuardPoolTest, AFaultFarBehindABlockIsItsOwnWhileTheNextSlotWasNeverUsed) {
  char* p = Take(64, 16, 0);
  const GuardVerdict v = ExplainAt(p + 3 * kNativePageSize + 100);
  EXPECT_EQ(v.finding, GuardFinding::kBeyondEnd);
  ASSERT_NE(v.block, nullptr);
  EXPECT_EQ(v.block->address.load(), reinterpret_cast<uintptr_t>(p));
}

TEST_F(GuardPoolTest, ASlotIsNobodysBeforeWhatWasFoundIsReported) {
  char* p = Take(64, 16, 0);
  p[64] = 'x';
  const GuardVerdict v = pool_.Free(p, event_);
  ASSERT_EQ(v.finding, GuardFinding::kBeyondEnd);
  size_t others = 0;
  while (Take(64) != nullptr) ++others;
  EXPECT_EQ(others, kSlots - 1);
  EXPECT_EQ(v.block->address.load(), reinterpret_cast<uintptr_t>(p));
  pool_.Release(v);
  EXPECT_NE(Take(64), nullptr);
}

TEST_F(GuardPoolTest, APlaceThatIsLostIsNeverUsedAgain) {
  char* p = Take(64);
  char* q = Take(64, 16, 0);
  q[64] = 'x';
  account_.when_closed = ClosedPlace::kLost;
  EXPECT_EQ(pool_.Free(p, event_).finding, GuardFinding::kNone);
  EXPECT_EQ(pool_.Free(p, event_).finding, GuardFinding::kFreedBefore);
  const GuardVerdict v = pool_.Free(q, event_);
  EXPECT_EQ(v.finding, GuardFinding::kBeyondEnd);
  pool_.Release(v);
  account_.when_closed = ClosedPlace::kEmpty;
  size_t others = 0;
  while (Take(64) != nullptr) ++others;
  EXPECT_EQ(others, kSlots - 2);
  EXPECT_TRUE(pool_.GivesZeroes());
}

TEST_F(GuardPoolTest, AlignmentIsKept) {
  for (size_t align = 16; align <= kNativePageSize; align *= 2) {
    char* p = Take(24, align);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
    pool_.Free(p, event_);
  }
}

TEST_F(GuardPoolTest, GivesNoMoreThanItHasAndTheLongestFreedFirst) {
  std::vector<char*> blocks;
  while (char* p = Take(10)) blocks.push_back(p);
  EXPECT_EQ(blocks.size(), kSlots);
  EXPECT_EQ(pool_.live(), kSlots);
  EXPECT_EQ(pool_.live_bytes(), 10 * kSlots);
  EXPECT_EQ(pool_.open_bytes(), kSlots * kNativePageSize);
  pool_.Free(blocks[3], event_);
  EXPECT_EQ(pool_.open_bytes(), (kSlots - 1) * kNativePageSize);
  EXPECT_EQ(Take(10), blocks[3]);
  for (char* p : blocks) pool_.Free(p, event_);
  EXPECT_EQ(pool_.live(), 0u);
  EXPECT_EQ(pool_.live_bytes(), 0u);
  EXPECT_EQ(pool_.taken(), kSlots + 1);
  EXPECT_EQ(pool_.open_bytes(), 0u);
}

TEST_F(GuardPoolTest, APageWhoseMemoryStaysCountsOnce) {
  account_.when_closed = ClosedPlace::kKept;
  for (size_t i = 0; i < 2 * kSlots; ++i) pool_.Free(Take(10), event_);
  EXPECT_EQ(pool_.live(), 0u);
  EXPECT_EQ(pool_.open_bytes(), kSlots * kNativePageSize);
  account_.when_closed = ClosedPlace::kEmpty;
  pool_.Free(Take(10), event_);
  EXPECT_EQ(pool_.open_bytes(), (kSlots - 1) * kNativePageSize);
}

TEST_F(GuardPoolTest, ASecondFreeAndOneInsideAreRefused) {
  char* p = Take(64);
  const GuardVerdict inside = pool_.Free(p + 8, event_);
  EXPECT_EQ(inside.finding, GuardFinding::kNotItsStart);
  EXPECT_EQ(inside.block->address.load(), reinterpret_cast<uintptr_t>(p));
  EXPECT_EQ(pool_.Free(p, event_).finding, GuardFinding::kNone);
  const GuardVerdict again = pool_.Free(p, {});
  EXPECT_EQ(again.finding, GuardFinding::kFreedBefore);
  EXPECT_EQ(again.block->freed.thread, 7u);
}

TEST_F(GuardPoolTest, WhatIsWrittenBesideABlockIsFoundAtItsFree) {
  char* p = Take(100);
  p[100] = 1;
  const GuardVerdict after = pool_.Free(p, event_);
  EXPECT_EQ(after.finding, GuardFinding::kBeyondEnd);
  EXPECT_EQ(after.at, reinterpret_cast<uintptr_t>(p + 100));
  char* q = Take(100);
  q[-8] = 1;
  EXPECT_EQ(pool_.Free(q, event_).finding, GuardFinding::kBeforeStart);
  char* far = Take(8, 16, 0);
  far[4095] = 1;
  EXPECT_EQ(pool_.Free(far, event_).finding, GuardFinding::kBeyondEnd);
}

TEST_F(GuardPoolTest, FaultsAreExplained) {
  char* p = Take(64);
  char* q = Take(64);
  EXPECT_EQ(ExplainAt(p).finding, GuardFinding::kNone);
  EXPECT_EQ(ExplainAt(p + 64).finding, GuardFinding::kBeyondEnd);
  EXPECT_EQ(ExplainAt(p + 64).block->address.load(), reinterpret_cast<uintptr_t>(p));
  char* q_page = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(q) & ~(kNativePageSize - 1));
  EXPECT_EQ(ExplainAt(q_page - 1).finding, GuardFinding::kBeforeStart);
  EXPECT_EQ(ExplainAt(q_page - 1).block->address.load(), reinterpret_cast<uintptr_t>(q));
  // Beyond the last that was ever used.
  EXPECT_EQ(ExplainAt(q + 64 + kNativePageSize).block->address.load(),
            reinterpret_cast<uintptr_t>(q));
  pool_.Free(p, event_);
  EXPECT_EQ(ExplainAt(p + 3).finding, GuardFinding::kUseAfterFree);
  EXPECT_EQ(ExplainAt(q_page + 6 * kNativePageSize).block, nullptr);
}

TEST_F(GuardPoolTest, KnowsItsOwnAddressesAlone) {
  char* first = reinterpret_cast<char*>(account_.start);
  EXPECT_TRUE(pool_.Owns(first));
  EXPECT_TRUE(pool_.Owns(first + account_.bytes - 1));
  EXPECT_FALSE(pool_.Owns(first - 1));
  EXPECT_FALSE(pool_.Owns(first + account_.bytes));
  EXPECT_FALSE(pool_.Owns(nullptr));
}

TEST_F(GuardPoolTest, ARefusedPageCostsNoSlot) {
  account_.refuse_open = true;
  EXPECT_EQ(Take(10), nullptr);
  account_.refuse_open = false;
  std::vector<char*> blocks;
  while (char* p = Take(10)) blocks.push_back(p);
  EXPECT_EQ(blocks.size(), kSlots);
}

TEST_F(GuardPoolTest, WhatIsForgivenIsOpenAndNoLongerZero) {
  char* p = Take(64);
  pool_.Free(p, event_);
  EXPECT_TRUE(pool_.GivesZeroes());
  pool_.Forgive(reinterpret_cast<uintptr_t>(p) + 8);
  EXPECT_TRUE(IsOpen(p));
  EXPECT_FALSE(pool_.GivesZeroes());
}

TEST_F(LargeGuardPoolTest, ABlockLiesAtOneEndOfItsPages) {
  EXPECT_EQ(pool_.most_align(), kGap);
  EXPECT_EQ(account_.start % kGap, 0u);
  for (const uint32_t side : {0u, 1u}) {
    for (const size_t size : {size_t{1}, size_t{4097}, size_t{10'000}, kMost - 1, kMost}) {
      char* p = Take(size, 16, side);
      ASSERT_NE(p, nullptr);
      const auto at = reinterpret_cast<uintptr_t>(p);
      const size_t pages = (size + kNativePageSize - 1) / kNativePageSize;
      EXPECT_EQ(at % 16, 0u);
      EXPECT_EQ(account_.open.size(), pages);
      EXPECT_TRUE(IsOpen(p) && IsOpen(p + size - 1));
      if (side == 0) {
        EXPECT_EQ(at % kGap, 0u);
      } else {
        EXPECT_LT((kNativePageSize - (at + size) % kNativePageSize) % kNativePageSize, 16u);
      }
      EXPECT_EQ(pool_.open_bytes(), pages * kNativePageSize);
      EXPECT_EQ(pool_.SizeOf(p), size);
      size_t seen = 0;
      pool_.VisitLive([&](uintptr_t start, size_t bytes) {
        EXPECT_EQ(start, at & ~(kNativePageSize - 1));
        seen += bytes;
      });
      EXPECT_EQ(seen, pages * kNativePageSize);
      EXPECT_EQ(pool_.Free(p, event_).finding, GuardFinding::kNone);
      EXPECT_TRUE(account_.open.empty());
      EXPECT_EQ(pool_.open_bytes(), 0u);
    }
  }
}

TEST_F(LargeGuardPoolTest, AlignmentIsKeptUpToTheGap) {
  for (const uint32_t side : {0u, 1u}) {
    for (size_t align = 16; align <= kGap; align *= 2) {
      char* p = Take(5000, align, side);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
      EXPECT_EQ(pool_.Free(p, event_).finding, GuardFinding::kNone);
    }
  }
}

TEST_F(LargeGuardPoolTest, FaultsAreOfTheNearestBlock) {
  const auto of = [](const GuardVerdict& v) {
    return reinterpret_cast<char*>(v.block->address.load());
  };
  char* p = Take(5 * kNativePageSize);
  char* q = Take(9000, 16, 0);
  EXPECT_EQ(ExplainAt(p + 20'000).finding, GuardFinding::kNone);
  EXPECT_EQ(ExplainAt(p - 1).finding, GuardFinding::kBeforeStart);
  EXPECT_EQ(of(ExplainAt(p + 5 * kNativePageSize)), p);
  EXPECT_EQ(ExplainAt(p + 5 * kNativePageSize).finding, GuardFinding::kBeyondEnd);
  // 15 pages lie between the two.
  EXPECT_EQ(of(ExplainAt(p + 12 * kNativePageSize)), p);
  EXPECT_EQ(of(ExplainAt(p + 13 * kNativePageSize)), q);
  EXPECT_EQ(ExplainAt(q - 1).finding, GuardFinding::kBeforeStart);
  // Behind it nothing was ever taken.
  EXPECT_EQ(of(ExplainAt(q + kMost)), q);
  pool_.Free(p, event_);
  EXPECT_EQ(ExplainAt(p + 20'000).finding, GuardFinding::kUseAfterFree);
  EXPECT_EQ(ExplainAt(p + 5 * kNativePageSize).finding, GuardFinding::kBeyondEnd);
  EXPECT_EQ(pool_.Free(q + 5000, event_).finding, GuardFinding::kNotItsStart);
}

TEST_F(LargeGuardPoolTest, WhatIsWrittenBesideABlockIsFoundAtItsFree) {
  char* p = Take(9000, 16, 0);
  p[12'287] = 1;
  const GuardVerdict after = pool_.Free(p, event_);
  EXPECT_EQ(after.finding, GuardFinding::kBeyondEnd);
  EXPECT_EQ(after.at, reinterpret_cast<uintptr_t>(p + 12'287));
  char* q = Take(9000);
  q[-3000] = 1;
  EXPECT_EQ(pool_.Free(q, event_).finding, GuardFinding::kBeforeStart);
}

TEST_F(LargeGuardPoolTest, MemoryThatStaysCountsOnce) {
  account_.when_closed = ClosedPlace::kKept;
  for (size_t i = 0; i < 2 * kSlots; ++i) pool_.Free(Take(i < kSlots ? kMost : 1), event_);
  EXPECT_EQ(pool_.open_bytes(), kSlots * kMost);
  EXPECT_FALSE(pool_.GivesZeroes());
  account_.when_closed = ClosedPlace::kEmpty;
  pool_.Free(Take(1), event_);
  EXPECT_EQ(pool_.open_bytes(), (kSlots - 1) * kMost);
}

// One piece of it after the other would cost the kernel a record each.
TEST_F(LargeGuardPoolTest, AFreedBlockIsForgivenAsAWhole) {
  char* p = Take(5 * kNativePageSize);
  pool_.Free(p, event_);
  pool_.Forgive(reinterpret_cast<uintptr_t>(p) + 2 * kNativePageSize);
  EXPECT_EQ(account_.open.size(), 5u);
  EXPECT_TRUE(IsOpen(p));
  pool_.Forgive(reinterpret_cast<uintptr_t>(p) + 7 * kNativePageSize);
  EXPECT_EQ(account_.open.size(), 6u);
}

// Init writes none, into memory that is zero.
TEST(GuardPool, ARecordThatWasNeverUsedIsAllZeroes) {
  static constinit GuardedBlock block;
  constexpr unsigned char kZeroes[sizeof(block)] = {};
  EXPECT_EQ(memcmp(static_cast<const void*>(&block), kZeroes, sizeof(block)), 0);
}

TEST(GuardPool, WithoutMemoryItOwnsNothing) {
  test::TestArena arena;
  GuardPool<FakePages> pool({kNativePageSize, 2 * kNativePageSize});
  EXPECT_FALSE(pool.Init(arena.arena(), 8));
  EXPECT_FALSE(pool.Owns(&pool));
  EXPECT_EQ(pool.Take(8, 16, 0, {}), nullptr);
}

}  // namespace
}  // namespace strata
