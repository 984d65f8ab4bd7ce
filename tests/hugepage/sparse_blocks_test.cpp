// SparseBlocks: which hugepages of large blocks are taken apart and rebuilt, when they are looked
// at, and what becomes of a block that is given back meanwhile.
#include "hugepage/sparse_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "hugepage/page_heap.h"
#include "test_tiers.h"

namespace strata::test {
namespace {

constexpr RebuildTime kTime{100'000'000, 0, 100'000'000};
constexpr size_t kNatives = kNativePerHugePage;

struct SparseBlocksTest : testing::Test {
  SparseBlocksTest() {
    kernel.frees_zero_pages = kernel.tells_resident = true;
    heap.SetRebuildTime(kTime);
  }

  PageRange Take(size_t hugepages) { return heap.Take({PagesOf(HugePages(hugepages))}).range; }
  static HugePageId At(PageRange r, size_t i) { return HugePageOf(r.first) + HugePages(i); }
  // Every `step`th native page of the i-th hugepage.
  void Write(PageRange r, size_t i, size_t step, uint32_t tag = 7) {
    for (size_t n = 0; n < kNatives; n += step) kernel.Write(At(r, i).raw() * kNatives + n, tag);
  }
  void Tick(Program program, uint64_t after_ms = 1000) {
    kernel.Advance(after_ms);
    heap.Tick(program == Program::kWorks ? CallRate::kBusy : CallRate::kIdle, program);
  }
  void Rest() {
    for (int i = 0; i < 3; ++i) Tick(Program::kRests);
  }

  TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap{kernel, meta.arena(), {.small_heap = HugePages(0)}};
};

TEST_F(SparseBlocksTest, WhatIsHardlyTouchedKeepsThatAlone) {
  const PageRange r = Take(4);
  Write(r, 0, 64);
  Write(r, 1, 1);
  Write(r, 3, 4);  // a quarter
  ASSERT_EQ(kernel.resident_bytes(), 3 * kHugePageSize);
  Rest();
  EXPECT_EQ(kernel.resident_bytes(), (8 + kNatives + kNatives / 4) * kNativePageSize);
  EXPECT_EQ(kernel.physical_bytes(), kernel.resident_bytes());
  EXPECT_EQ(kernel.Read(At(r, 0).raw() * kNatives + 64), 7u);
  EXPECT_TRUE(kernel.whole(At(r, 1)));
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kNoHuge);
  EXPECT_EQ(kernel.advice(At(r, 2)), FakeKernel::Advice::kHuge);
  EXPECT_EQ(heap.Stats().marked_no_huge, 2u);
}

TEST_F(SparseBlocksTest, MoreThanAQuarterStaysWhole) {
  const PageRange r = Take(1);
  Write(r, 0, 4);
  kernel.Write(At(r, 0).raw() * kNatives + 1, 7);
  Rest();
  EXPECT_TRUE(kernel.whole(At(r, 0)));
}

TEST_F(SparseBlocksTest, AWorkingProgramIsGivenTimeToFillIt) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Tick(Program::kWorks, 29'000);
  EXPECT_TRUE(kernel.whole(At(r, 0)));
  Tick(Program::kWorks);
  EXPECT_FALSE(kernel.whole(At(r, 0)));
}

TEST_F(SparseBlocksTest, WhatFillsUpIsRebuiltAndLeftAlone) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  ASSERT_FALSE(kernel.whole(At(r, 0)));
  Write(r, 0, 2);  // a half
  for (int i = 0; i < 3; ++i) Tick(Program::kWorks);
  EXPECT_FALSE(kernel.whole(At(r, 0)));
  kernel.Write(At(r, 0).raw() * kNatives + 1, 7);
  Tick(Program::kRests, 20'000);
  EXPECT_FALSE(kernel.whole(At(r, 0)));
  Tick(Program::kWorks, 40'000);
  EXPECT_TRUE(kernel.whole(At(r, 0)));
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kHuge);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  kernel.on_nonzero = [] { ADD_FAILURE(); };
  for (int i = 0; i < 1000; ++i) Tick(Program::kRests);
}

TEST_F(SparseBlocksTest, ARefusedRebuildIsTriedAgain) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  Write(r, 0, 1);
  kernel.refuse_collapse = true;
  Tick(Program::kWorks, 20'000);
  EXPECT_EQ(kernel.collapse_calls, 1u);
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kNoHuge);
  EXPECT_EQ(heap.Stats().marked_no_huge, 1u);
  kernel.refuse_collapse = false;
  Tick(Program::kWorks, 40'000);
  EXPECT_TRUE(kernel.whole(At(r, 0)));
}

TEST_F(SparseBlocksTest, LooksAreRarerTheLongerABlockLives) {
  const PageRange r = Take(1);
  Write(r, 0, 1);
  size_t looks = 0;
  kernel.on_nonzero = [&] { ++looks; };
  for (int i = 0; i < 1000; ++i) Tick(Program::kRests);
  EXPECT_GE(looks, 9u);
  EXPECT_LE(looks, 11u);
  for (int i = 0; i < 9000; ++i) Tick(Program::kRests);
  EXPECT_LE(looks, 15u);
}

TEST_F(SparseBlocksTest, WhatWasTakenApartIsLookedAtMoreRarelyToo) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  ASSERT_FALSE(kernel.whole(At(r, 0)));
  size_t looks = 0;
  kernel.on_nonzero = [&] { ++looks; };
  for (int i = 0; i < 1000; ++i) Tick(Program::kWorks);
  EXPECT_GE(looks, 8u);
  EXPECT_LE(looks, 15u);
}

TEST_F(SparseBlocksTest, WhatTheKernelWillNotSplitStaysAsItWas) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  kernel.refuse_split = true;
  Rest();
  EXPECT_EQ(kernel.splits, 1u);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kHuge);
  for (int i = 0; i < 200; ++i) Tick(Program::kRests);
  EXPECT_EQ(kernel.splits, 1u);
  kernel.refuse_split = false;
  for (int i = 0; i < 200; ++i) Tick(Program::kRests);
  EXPECT_FALSE(kernel.whole(At(r, 0)));
}

TEST_F(SparseBlocksTest, WhatTheKernelLeftWholeWithoutAWordIsSplitLater) {
  for (const Program program : {Program::kRests, Program::kWorks}) {
    const PageRange r = Take(1);
    Write(r, 0, 64);
    kernel.ignore_split = true;
    Rest();
    ASSERT_TRUE(kernel.whole(At(r, 0)));
    kernel.ignore_split = false;
    Tick(program, 20'000);
    EXPECT_FALSE(kernel.whole(At(r, 0)));
    heap.Give(r);
    Tick(Program::kRests);
  }
}

TEST_F(SparseBlocksTest, WhatWasSwappedOutIsNotRead) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  ASSERT_FALSE(kernel.whole(At(r, 0)));
  Write(r, 0, 2);
  const size_t before = kernel.resident_bytes();
  for (size_t n = 0; n < 16; ++n) kernel.SwapOut(At(r, 0).raw() * kNatives + 2 * n);
  size_t looks = 0;
  kernel.on_nonzero = [&] { ++looks; };
  Tick(Program::kWorks, 20'000);
  EXPECT_EQ(looks, 1u);
  EXPECT_EQ(kernel.resident_bytes(), before - 16 * kNativePageSize);
}

TEST_F(SparseBlocksTest, NoneIsTakenApartWhileAMoveIsUnderWay) {
  const PageRange from = Take(1), to = Take(1);
  Write(from, 0, 64);
  kernel.on_move = [&] {
    for (int i = 0; i < 3; ++i) Tick(Program::kRests);
  };
  heap.lock().Acquire();
  EXPECT_EQ(heap.MoveHolding(from, to), from.length);
  heap.lock().Release();
  EXPECT_EQ(kernel.splits, 0u);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  EXPECT_EQ(kernel.advice(At(from, 0)), FakeKernel::Advice::kHuge);
  for (int i = 0; i < 4; ++i) Tick(Program::kRests, 4'000);
  EXPECT_FALSE(kernel.whole(At(to, 0)));  // afterwards it is
}

TEST_F(SparseBlocksTest, HalfOfTheMarksAreLeftToOthers) {
  constexpr size_t kMost = PageTiers<FakeKernel>::kMarkBudget / 2;
  const PageRange r = Take(kMost + 20);
  for (size_t i = 0; i < kMost + 20; ++i) kernel.Write(At(r, i).raw() * kNatives, 7);
  for (int i = 0; i < 600; ++i) Tick(Program::kRests);
  EXPECT_EQ(heap.Stats().marked_no_huge, kMost);
}

TEST_F(SparseBlocksTest, ATickTakesFewApart) {
  const PageRange r = Take(64);
  for (size_t i = 0; i < 64; ++i) Write(r, i, 64);
  kernel.Advance(2000);
  Tick(Program::kRests);
  EXPECT_EQ(heap.Stats().marked_no_huge, 16u);
  Tick(Program::kRests);
  EXPECT_EQ(heap.Stats().marked_no_huge, 32u);
}

TEST_F(SparseBlocksTest, NothingIsRebuiltNearTheSoftLimitOrBeyondTheTime) {
  const PageRange r = Take(4);
  for (size_t i = 0; i < 4; ++i) Write(r, i, 64);
  Rest();
  ASSERT_EQ(heap.Stats().marked_no_huge, 4u);
  for (size_t i = 0; i < 4; ++i) Write(r, i, 1);
  kernel.soft_limit = kHugePageSize;
  heap.CheckSoftLimit();
  Tick(Program::kWorks, 20'000);
  EXPECT_EQ(kernel.collapse_calls, 0u);
  kernel.soft_limit = 0;
  heap.CheckSoftLimit();
  heap.SetRebuildTime({kernel.collapse_ns, 0, kTime.look_ns});
  Tick(Program::kWorks, 100'000);
  EXPECT_EQ(kernel.collapse_calls, 1u);
  Tick(Program::kWorks);
  EXPECT_EQ(kernel.collapse_calls, 2u);
}

// The collapser's own work comes out of the same time.
TEST_F(SparseBlocksTest, RebuildsOfATickShareItsTime) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  Write(r, 0, 1);
  std::vector<PageRange> small;
  for (int i = 0; i < 4096; ++i) small.push_back(heap.Take({Pages(1)}).range);
  for (const PageRange s : small) kernel.Write(s.first.raw() * kNativePerPage, 7);
  NativeRange gone[16];
  for (size_t i = 0; i < 16; ++i) gone[i] = {OffsetOf(small[i * 256].first), kNativePageSize};
  std::sort(std::begin(gone), std::end(gone), [](auto a, auto b) { return a.offset < b.offset; });
  heap.ReleaseInUse(gone, std::size(gone), Program::kIsShort);
  heap.SetRebuildTime({1, 1, kTime.look_ns});
  Tick(Program::kWorks, 20'000);
  EXPECT_EQ(kernel.collapse_calls, 1u);
  EXPECT_FALSE(kernel.whole(At(r, 0)));
}

TEST_F(SparseBlocksTest, TimeBoundsATickAndTheNextGoesOn) {
  const PageRange r = Take(8);
  for (size_t i = 0; i < 8; ++i) Write(r, i, 64);
  kernel.Advance(1000);
  kernel.nonzero_ns = kTime.look_ns / 2;
  Tick(Program::kRests);
  EXPECT_EQ(kernel.splits, 2u);
  Tick(Program::kRests);
  EXPECT_EQ(kernel.splits, 4u);
}

TEST_F(SparseBlocksTest, NothingIsReadWhereThatIsInVain) {
  size_t looks = 0;
  kernel.on_nonzero = [&] { ++looks; };
  const PageRange untouched = Take(2);
  Rest();
  EXPECT_EQ(looks, 0u);
  for (const bool frees : {false, true}) {
    FakeKernel other{HugePages(4096)};
    other.tells_resident = true;
    other.frees_zero_pages = frees;
    other.can_collapse = !frees;  // what can't be rebuilt is not taken apart
    other.on_nonzero = [&] { ++looks; };
    TestArena arena;
    PageHeap<FakeKernel> there{other, arena.arena(), {.small_heap = HugePages(0)}};
    there.SetRebuildTime(kTime);
    other.Write(there.Take({PagesOf(HugePages(2))}).range.first.raw() * kNativePerPage, 7);
    for (int i = 0; i < 4; ++i) {
      other.Advance(1000);
      there.Tick(CallRate::kIdle, Program::kRests);
    }
  }
  EXPECT_EQ(looks, 0u);
  heap.SetRebuildTime({100'000'000, 100'000'000});  // by the program's own thread
  Write(untouched, 0, 64);
  Rest();
  EXPECT_EQ(looks, 0u);
}

TEST_F(SparseBlocksTest, WhatCantBeReadStaysWhole) {
  const PageRange r = Take(2);
  Write(r, 0, 64);
  Write(r, 1, 64);
  kernel.unreadable = At(r, 0);
  Rest();
  EXPECT_TRUE(kernel.whole(At(r, 0)));
  EXPECT_FALSE(kernel.whole(At(r, 1)));
}

TEST_F(SparseBlocksTest, GivenBackItGoesToTheKernelAndComesAgainAsAHugePage) {
  const PageRange r = Take(3);
  for (const size_t i : {0u, 1u, 2u}) Write(r, i, i == 1 ? 64 : 1);
  Rest();
  ASSERT_EQ(heap.Stats().marked_no_huge, 1u);
  heap.Give(r);
  EXPECT_EQ(heap.Stats().cache.hugepages, 2u);
  EXPECT_EQ(heap.used(), Pages(0));
  EXPECT_EQ(heap.free_backed(), PagesOf(HugePages(3)));
  Tick(Program::kRests);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  EXPECT_EQ(kernel.advice(At(r, 1)), FakeKernel::Advice::kHuge);
  heap.ReleaseNow(SIZE_MAX >> 1);
  EXPECT_EQ(kernel.physical_bytes(), 0u);
  EXPECT_EQ(heap.free_backed(), Pages(0));
}

TEST_F(SparseBlocksTest, GivenBackWithoutMetadataItCountsAsAHugePage) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  meta.fail = true;
  while (heap.Lend(1) != nullptr) {  // what records there are
  }
  heap.Give(r);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kHuge);
  EXPECT_EQ(heap.Stats().cache.hugepages, 1u);
}

TEST_F(SparseBlocksTest, ItsTailIsKnownToBeBroken) {
  const PageRange r = Take(2);
  Write(r, 0, 1);
  Write(r, 1, 64);
  Rest();
  ASSERT_EQ(heap.Stats().marked_no_huge, 1u);
  heap.Shrink(r, kPagesInHugePage + Pages(1));
  EXPECT_EQ(heap.Stats().filler.partly_released, 1u);
  heap.Give({r.first, kPagesInHugePage + Pages(1)});
  Tick(Program::kRests);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
}

TEST_F(SparseBlocksTest, ItsTailIsNotRebuiltAtOnce) {
  const PageRange r = Take(20);
  for (size_t i = 0; i < 20; ++i) Write(r, i, i == 1 ? 64 : 1);
  Rest();
  heap.Shrink(r, kPagesInHugePage + Pages(200));
  heap.SetRebuildTime({100'000'000, 100'000'000, kTime.look_ns});
  const PageRange others = Take(20);  // the collapser leaves small heaps alone
  for (size_t i = 0; i < 20; ++i) Write(others, i, 1);
  for (int i = 0; i < 10; ++i) Tick(Program::kWorks);
  EXPECT_FALSE(kernel.whole(At(r, 1)));
}

TEST_F(SparseBlocksTest, ABlockCutDuringItsRebuildHasAWholeTail) {
  for (const bool refused : {false, true}) {
    const PageRange r = Take(1);
    Write(r, 0, 64);
    Rest();
    Write(r, 0, 1);
    kernel.refuse_collapse = refused;
    kernel.on_collapse = [&] { heap.Shrink(r, Pages(7)); };
    Tick(Program::kWorks, 20'000);
    kernel.on_collapse = nullptr;
    EXPECT_EQ(kernel.advice(At(r, 0)),
              refused ? FakeKernel::Advice::kNoHuge : FakeKernel::Advice::kHuge);
    EXPECT_EQ(heap.Stats().marked_no_huge, refused ? 1u : 0u);
    EXPECT_EQ(heap.Stats().filler.partly_released, refused ? 1u : 0u);
    heap.Give({r.first, Pages(7)});
    Tick(Program::kRests);
    EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
    heap.ReleaseNow(SIZE_MAX >> 1);
  }
}

TEST_F(SparseBlocksTest, ABlockGivenBackDuringItsRebuildIsNobodysMeanwhile) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  Write(r, 0, 1);
  kernel.on_collapse = [&] {
    heap.Give(r);
    heap.ReleaseNow(SIZE_MAX >> 1);
  };
  Tick(Program::kWorks, 20'000);
  kernel.on_collapse = nullptr;
  EXPECT_LE(kernel.physical_bytes(), BytesOf(heap.free_backed()));
  heap.ReleaseNow(SIZE_MAX >> 1);
  EXPECT_EQ(kernel.physical_bytes(), 0u);
  EXPECT_EQ(heap.free_backed(), Pages(0));
}

TEST_F(SparseBlocksTest, AChildForkedDuringARebuildGoesOn) {
  const PageRange r = Take(2);
  Write(r, 0, 64);
  Write(r, 1, 64);
  Rest();
  Write(r, 0, 1);
  kernel.refuse_collapse = true;
  kernel.on_collapse = [&] {
    heap.RecoverInChild();  // the other thread has not come along
    EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kNoHuge);
  };
  Tick(Program::kWorks, 20'000);
  EXPECT_EQ(kernel.collapse_calls, 1u);
}

TEST_F(SparseBlocksTest, ABlockGivenBackDuringTheLookIsLeftAlone) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  kernel.on_nonzero = [&] { heap.Give(r); };
  kernel.Advance(1000);
  Tick(Program::kRests);
  kernel.on_nonzero = nullptr;
  EXPECT_EQ(kernel.splits, 0u);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kHuge);
}

TEST_F(SparseBlocksTest, ABlockGivenBackDuringItsRebuildEndsUnmarked) {
  const PageRange r = Take(1);
  Write(r, 0, 64);
  Rest();
  Write(r, 0, 1);
  kernel.on_collapse = [&] { heap.Give(r); };
  Tick(Program::kWorks, 20'000);
  kernel.on_collapse = nullptr;
  EXPECT_EQ(kernel.collapse_calls, 1u);
  EXPECT_EQ(heap.used(), Pages(0));
  Tick(Program::kRests);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
  EXPECT_EQ(kernel.advice(At(r, 0)), FakeKernel::Advice::kHuge);
}

}  // namespace
}  // namespace strata::test
