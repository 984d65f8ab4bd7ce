// PageHeap: where requests go, what goes back and when, and what happens when memory or time runs
// out.
#include "hugepage/page_heap.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr Placement kLasting{.lifetime = LifetimeClass::kLong};

struct PageHeapTest : testing::Test {
  explicit PageHeapTest(const PageHeapOptions& options = {.small_heap = HugePages(4)})
      : heap(kernel, meta.arena(), options) {}

  PageRange Take(size_t n, size_t align = 1, Placement placement = {}) {
    return heap.Take({Pages(n), Pages(align), placement}).range;
  }
  void Write(PageRange r) {
    for (size_t i = r.first.raw() * kNativePerPage; i < r.end().raw() * kNativePerPage; ++i)
      kernel.Write(i, 1);
  }
  void Give(PageRange r) { heap.Give(r); }
  // One second of the program's life.
  size_t Second(bool idle) {
    kernel.Advance(1000);
    return idle ? heap.Tick(CallRate::kIdle, Program::kRests)
                : heap.Tick(CallRate::kBusy, Program::kWorks);
  }
  std::string States() {
    std::string s;
    heap.VisitHugePages([&](HugePageId, size_t, size_t, char state, uint32_t) { s += state; });
    return s.substr(0, s.find_last_not_of('u') + 1);
  }

  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap;
};

TEST_F(PageHeapTest, SmallRunsShareAHugePageAndLastingOnesHaveTheirOwn) {
  const PageRange a = Take(1), b = Take(7), c = Take(1, 1, kLasting);
  EXPECT_EQ(a, (PageRange{PageId(0), Pages(1)}));
  EXPECT_EQ(b, (PageRange{PageId(1), Pages(7)}));
  EXPECT_EQ(c, (PageRange{PageId(256), Pages(1)}));
  EXPECT_EQ(States(), "rD");
  EXPECT_EQ(heap.used(), Pages(9));
  EXPECT_EQ(heap.free_backed(), Pages(512 - 9));
  Give(a);
  Give(b);
  Give(c);
  EXPECT_EQ(States(), "cc");
  EXPECT_EQ(heap.free_backed(), Pages(512));
}

TEST_F(PageHeapTest, LargeRunsDonateTheirTails) {
  const PageRange big = Take(300);
  EXPECT_EQ(States(), "Ld");
  EXPECT_EQ(heap.Stats().filler.slack, BytesOf(Pages(212)));
  const PageRange small = Take(100);  // only the tail is there
  EXPECT_EQ(small.first, PageId(300));
  EXPECT_EQ(States(), "Lr");
  Give(big);
  EXPECT_EQ(States(), "cr");
  EXPECT_EQ(heap.Stats().filler.abandoned, BytesOf(Pages(44)));
  EXPECT_EQ(heap.Stats().filler.slack, 0u);
  Give(small);
  EXPECT_EQ(States(), "cc");
  EXPECT_EQ(heap.Stats().filler.abandoned, 0u);
}

TEST_F(PageHeapTest, LastingRunsLeaveDonatedTailsAlone) {
  Take(300);
  EXPECT_EQ(Take(1, 1, kLasting).first, PageId(512));
}

TEST_F(PageHeapTest, WholeHugePagesComeFromTheCacheAgain) {
  const PageRange r = Take(512);
  Give(r);
  const PageHeapStats before = heap.Stats();
  EXPECT_EQ(Take(512), r);
  EXPECT_EQ(heap.Stats().cache.hits, before.cache.hits + 1);
  EXPECT_EQ(kernel.release_calls, 0u);
}

TEST_F(PageHeapTest, ZeroedOnlyWhatWasNeverHandedOut) {
  EXPECT_TRUE(heap.Take({Pages(512)}).zeroed);
  const PageRun a = heap.Take({Pages(4)});
  EXPECT_TRUE(a.zeroed);
  Give(a.range);
  EXPECT_FALSE(heap.Take({Pages(4)}).zeroed);
  EXPECT_FALSE(heap.Take({Pages(256)}).range.empty());
}

TEST_F(PageHeapTest, AlignmentsUpToAGigabyte) {
  for (size_t align = 1; align <= 512 * 256; align *= 2) {
    for (size_t n : {1, 3, 100, 300}) {
      const PageRange r = Take(n, align);
      ASSERT_FALSE(r.empty()) << n << " aligned to " << align;
      EXPECT_EQ(r.first.raw() % align, 0u);
      Give(r);
    }
  }
  EXPECT_EQ(heap.used(), Pages(0));
  EXPECT_EQ(heap.Stats().large, 0u);
}

// Addresses are aligned, not places in the window, which may start anywhere.
TEST(PageHeapPast, AlignmentsCountFromAddressZero) {
  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  kernel.past = HugePages(137);
  PageHeap<FakeKernel> heap(kernel, meta.arena(), {});
  for (const bool fragmented : {false, true}) {
    for (size_t align = 1; align <= 512 * 256; align *= 2) {
      const PageRange r = heap.Take({Pages(300), Pages(align)}).range;
      ASSERT_FALSE(r.empty());
      EXPECT_EQ((r.first.raw() + 137 * kPagesPerHugePage) % align, 0u) << align;
      if (!fragmented || align < 1000) heap.Give(r);
    }
  }
}

TEST_F(PageHeapTest, RegionsServeAwkwardSizesOnceTailsWasteMuch) {
  std::vector<PageRange> runs;
  while (heap.Stats().filler.slack < 64 * kMiB) runs.push_back(Take(257));
  EXPECT_EQ(heap.Stats().region.regions, 0u);
  const PageRange a = Take(257), b = Take(257);
  EXPECT_EQ(heap.Stats().region.regions, 1u);
  EXPECT_EQ(a.end(), b.first);  // packed across the hugepage boundary
  EXPECT_EQ(heap.Stats().region.used, BytesOf(Pages(514)));
  EXPECT_EQ(heap.Stats().region.free, BytesOf(Pages(768 - 514)));
  Give(a);
  Give(b);
  for (const PageRange& r : runs) Give(r);
  Second(false);  // an empty region is dissolved
  EXPECT_EQ(heap.Stats().region.regions, 0u);
  heap.ReleaseNow(~size_t{0} >> 1);
  EXPECT_EQ(heap.free_backed(), Pages(0));
}

TEST_F(PageHeapTest, GivingNeverCallsTheKernel) {
  std::vector<PageRange> runs;
  for (size_t n : {1, 200, 300, 512, 5000, 100'000}) runs.push_back(Take(n));
  const size_t advised = kernel.advise_calls;
  for (const PageRange& r : runs) Give(r);
  EXPECT_EQ(kernel.release_calls, 0u);
  EXPECT_EQ(kernel.advise_calls, advised);
}

TEST_F(PageHeapTest, GrowsInPlaceIntoItsTailAndTheHugePagesBehind) {
  const PageRange r = Take(300);
  EXPECT_TRUE(heap.TryGrow(r, Pages(400)));
  EXPECT_EQ(heap.Stats().filler.slack, BytesOf(Pages(112)));
  EXPECT_TRUE(heap.TryGrow({r.first, Pages(400)}, Pages(1000)));
  EXPECT_EQ(heap.used(), Pages(1000));
  EXPECT_EQ(States(), "LLLd");
  const PageRange behind = Take(256);
  EXPECT_EQ(behind.first, PageId(1024));
  EXPECT_FALSE(heap.TryGrow({r.first, Pages(1000)}, Pages(1100)));
  EXPECT_TRUE(heap.TryGrow({r.first, Pages(1000)}, Pages(1024)));
  Give({r.first, Pages(1024)});
  EXPECT_EQ(States(), "ccccL");
}

TEST_F(PageHeapTest, ShrinksFromHugePagesToOnePage) {
  const PageRange r = Take(1000);
  heap.Shrink(r, Pages(600));
  EXPECT_EQ(States(), "LLdc");
  heap.Shrink({r.first, Pages(600)}, Pages(512));
  EXPECT_EQ(States(), "LLcc");
  heap.Shrink({r.first, Pages(512)}, Pages(1));
  EXPECT_EQ(States(), "dccc");
  EXPECT_EQ(heap.used_lately(), Pages(1));
  Give({r.first, Pages(1)});
  EXPECT_EQ(heap.used(), Pages(0));
  EXPECT_EQ(States(), "cccc");
}

// The row of the contract: 1 GiB of spans, 95 % of them freed at random, then silence.
TEST_F(PageHeapTest, BurstIsGivenBackWithinSevenSecondsOfIdleness) {
  std::vector<PageRange> runs;
  for (size_t i = 0; i < 131'072; ++i) {
    runs.push_back(Take(1, 1, i % 2 == 0 ? kLasting : Placement{}));
    kernel.Write(runs.back().first.raw() * kNativePerPage, 1);
    if (i % 16'384 == 0) Second(false);
  }
  std::mt19937 random(1);
  std::shuffle(runs.begin(), runs.end(), random);
  kernel.Advance(300);
  while (runs.size() > 131'072 / 20) {
    Give(runs.back());
    runs.pop_back();
  }
  EXPECT_GE(kernel.physical_bytes(), 1000 * kMiB);
  kernel.Advance(600);
  heap.Tick(CallRate::kBusy, Program::kWorks);
  for (int s = 0; s < 6; ++s) Second(true);
  EXPECT_LE(kernel.physical_bytes(), BytesOf(heap.used()));
  EXPECT_EQ(heap.free_backed(), Pages(0));
  for (const PageRange& r : runs) EXPECT_EQ(kernel.Read(r.first.raw() * kNativePerPage), 1u);
}

TEST_F(PageHeapTest, SwingEveryTwoSecondsReleasesNothing) {
  std::vector<PageRange> base, swing;
  for (size_t i = 0; i < 25'600; ++i) base.push_back(Take(1));
  uint64_t released = 0;
  for (int cycle = 0; cycle < 40; ++cycle) {
    for (size_t i = 0; i < 105'472; ++i) swing.push_back(Take(1));
    released += Second(false);
    // The program sleeps in between, so some ticks find it idle.
    released += Second(cycle % 3 == 0);
    for (const PageRange& r : swing) Give(r);
    swing.clear();
    released += Second(false);
    released += Second(cycle % 2 == 0);
  }
  EXPECT_EQ(released, 0u);
  EXPECT_EQ(heap.Stats().released_total, 0u);
}

// A level that stood for a while is remembered for the long window, a spike for the short one.
TEST_F(PageHeapTest, BusyProgramThatShrankGivesBackAfterItsWindow) {
  for (int level_s : {3, 0}) {
    const PageRange big = Take(100'000);
    for (int s = 0; s < level_s; ++s) Second(false);
    Give(big);
    const int window_s = level_s == 0 ? 10 : 30;
    size_t released = 0;
    for (int s = 0; s < window_s - 1; ++s) released += Second(false);
    EXPECT_EQ(released, 0u);
    for (int s = 0; s < 4; ++s) released += Second(false);
    EXPECT_GE(released, BytesOf(Pages(95'000)));
    for (int s = 0; s < 40; ++s) Second(false);
  }
}

TEST_F(PageHeapTest, GrowingProgramKeepsItsHugePagesWhole) {
  for (int s = 0; s < 60; ++s) {
    for (int i = 0; i < 700; ++i) Write(Take(1, 1, i % 3 == 0 ? kLasting : Placement{}));
    EXPECT_EQ(Second(false), 0u);
  }
}

TEST_F(PageHeapTest, ReleaseOfPartBreaksTheHugePageOnceAndTheRestIsFreedLater) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 256 * 6; ++i) runs.push_back(Take(1));
  for (const PageRange& r : runs) Write(r);
  const HugePageId broken(4);  // one that was mapped as a hugepage
  ASSERT_TRUE(kernel.whole(broken));
  for (size_t i = 1; i < 256; ++i) Give(runs[4 * 256 + i]);
  EXPECT_EQ(heap.ReleaseNow(1), BytesOf(Pages(255)));
  EXPECT_FALSE(kernel.whole(broken));
  EXPECT_EQ(kernel.advice(broken), FakeKernel::Advice::kNoHuge);
  EXPECT_EQ(heap.Stats().marked_no_huge, 1u);
  EXPECT_EQ(kernel.physical_bytes(), BytesOf(Pages(256 * 5 + 1)));
  EXPECT_EQ(States(), "rrrrxr");
  Give(runs[4 * 256]);
  EXPECT_EQ(States(), "rrrrer");
  Second(false);  // whatever demand says: nothing can be kept whole there
  EXPECT_EQ(States(), "rrrrur");
  EXPECT_EQ(kernel.advice(broken), FakeKernel::Advice::kHuge);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
}

TEST_F(PageHeapTest, ReleaseInUseGivesBackAndIsCounted) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 256 * 6; ++i) runs.push_back(Take(1));
  for (const PageRange& r : runs) Write(r);
  const size_t before = kernel.physical_bytes();
  const size_t at = OffsetOf(runs[4 * 256].first);
  NativeRange ranges[] = {{at, kNativePageSize}, {at + 4 * kNativePageSize, 2 * kNativePageSize}};
  EXPECT_EQ(heap.ReleaseInUse(ranges, 2, Program::kIsShort).bytes, 3 * kNativePageSize);
  EXPECT_EQ(heap.ReleaseInUse(ranges, 2, Program::kIsShort).bytes, 0u);  // they are gone already
  EXPECT_EQ(heap.GoneIn({at, 5 * kNativePageSize}), 2 * kNativePageSize);
  EXPECT_EQ(kernel.physical_bytes(), before - 3 * kNativePageSize);
  EXPECT_EQ(heap.Stats().filler.in_use_released, 3 * kNativePageSize);
  const NativePages reused{at, 0b11};  // one of them was never gone
  heap.NoteReused(&reused, 1);
  EXPECT_EQ(heap.Stats().filler.in_use_released, 2 * kNativePageSize);
  Give(runs[4 * 256 + 2]);  // its two native pages are the others
  EXPECT_EQ(heap.Stats().filler.in_use_released, 0u);
  EXPECT_EQ(heap.Stats().filler.released, kPageSize);
  EXPECT_EQ(kernel.splits, 1u);
}

TEST_F(PageHeapTest, DenseBrokenHugePagesAreRebuilt) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 256 * 12; ++i) runs.push_back(Take(1));
  for (const PageRange& r : runs) Write(r);
  for (size_t i = 0; i < 200; ++i) Give(runs[5 * 256 + i]);
  heap.ReleaseNow(BytesOf(Pages(200)));
  ASSERT_FALSE(kernel.whole(HugePageId(5)));
  for (size_t i = 0; i < 195; ++i) Write(Take(1));
  // The four of the small heap, too, now that the heap is not small.
  for (int s = 0; s < 5; ++s) Second(false);
  EXPECT_TRUE(kernel.whole(HugePageId(5)));
  EXPECT_TRUE(kernel.whole(HugePageId(0)));
  EXPECT_EQ(heap.Stats().collapsed_total, 5u);
  EXPECT_EQ(heap.Stats().filler.released, 0u);
  EXPECT_EQ(heap.Stats().marked_no_huge, 0u);
}

// Only the hugepage knows which pages of runs in use are given back: a rebuilt one has them all.
TEST_F(PageHeapTest, ARebuiltHugePageHasTheMemoryOfItsRunsInUseAgain) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 256 * 12; ++i) runs.push_back(Take(1));
  for (const PageRange& r : runs) Write(r);
  NativeRange hole{OffsetOf(runs[5 * 256].first), 20 * kNativePageSize};
  ASSERT_EQ(heap.ReleaseInUse(&hole, 1, Program::kIsShort).bytes, hole.bytes);
  EXPECT_EQ(heap.GoneIn(hole), hole.bytes);
  EXPECT_EQ(heap.rebuilt_in_use(), 0u);
  for (int s = 0; s < 5; ++s) Second(false);
  ASSERT_TRUE(kernel.whole(HugePageId(5)));
  EXPECT_EQ(heap.rebuilt_in_use(), 1u);
  EXPECT_EQ(heap.GoneIn(hole), 0u);
  EXPECT_EQ(heap.Stats().filler.in_use_released, 0u);
  const size_t before = kernel.physical_bytes();
  EXPECT_EQ(heap.ReleaseInUse(&hole, 1, Program::kIsShort).bytes, hole.bytes);
  EXPECT_EQ(kernel.physical_bytes(), before - hole.bytes);
  EXPECT_EQ(heap.Stats().filler.in_use_released, hole.bytes);
}

TEST_F(PageHeapTest, FailedCollapseIsNotTriedAgainSoon) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 256 * 12; ++i) runs.push_back(Take(1));
  kernel.refuse_collapse = true;
  for (int i = 0; i < 4; ++i) Second(false);
  kernel.refuse_collapse = false;
  const size_t collapses = kernel.collapses;
  for (int s = 0; s < 60; ++s) Second(false);
  EXPECT_EQ(kernel.collapses, collapses);
  for (int s = 0; s < 300; ++s) Second(false);
  EXPECT_GT(kernel.collapses, collapses);
}

TEST_F(PageHeapTest, SmallProgramAsksForNoHugePage) {
  for (int i = 0; i < 200; ++i) Write(Take(1));
  EXPECT_EQ(kernel.physical_bytes(), BytesOf(Pages(200)));
  EXPECT_EQ(heap.Stats().filler.untouched, BytesOf(Pages(56)));
}

TEST_F(PageHeapTest, OutOfMemoryIsAnEmptyRunAndRecovers) {
  kernel.map_limit = HugePages(20);
  std::vector<PageRange> runs;
  for (PageRange r; !(r = Take(256)).empty();) runs.push_back(r);
  EXPECT_EQ(runs.size(), 20u);
  EXPECT_TRUE(Take(1).empty());
  EXPECT_TRUE(Take(1 << 20).empty());
  Give(runs.back());
  EXPECT_FALSE(Take(1).empty());
  EXPECT_EQ(heap.used(), Pages(19 * 256 + 1));
}

TEST_F(PageHeapTest, WithoutAnotherHugePageDenseAndSparseRunsShareOne) {
  kernel.map_limit = HugePages(1);
  EXPECT_EQ(Take(1).first, PageId(0));
  EXPECT_EQ(Take(1, 1, kLasting).first, PageId(1));
  EXPECT_EQ(Take(3, 1, kLasting).first, PageId(2));
}

TEST_F(PageHeapTest, CachedRangesJoinFreeOnesWhenThatIsTheOnlyWay) {
  kernel.map_limit = HugePages(20);
  std::vector<PageRange> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(Take(256));
  for (int i = 0; i < 8; ++i) Give(runs[i]);
  heap.ReleaseNow(~size_t{0} >> 1);
  for (int i = 8; i < 16; ++i) Give(runs[i]);
  EXPECT_FALSE(Take(256 * 16).empty());
}

TEST_F(PageHeapTest, WithoutMetadataNothingIsLost) {
  Take(1);
  meta.fail = true;
  std::vector<PageRange> runs;
  for (PageRange r; !(r = Take(300)).empty();) {
    runs.push_back(r);
    ASSERT_LT(runs.size(), 5000u);
  }
  meta.fail = false;
  for (const PageRange& r : runs) Give(r);
  EXPECT_EQ(heap.used(), Pages(1));
  EXPECT_EQ(heap.Stats().large, 0u);
}

struct LimitedHeapTest : PageHeapTest {
  LimitedHeapTest() : PageHeapTest({.hard_limit_bytes = 64 * kMiB}) {}
};

TEST_F(LimitedHeapTest, LimitReleasesFirstAndThenFails) {
  const PageRange a = Take(4096);  // 32 MiB
  Give(a);
  EXPECT_EQ(kernel.release_calls, 0u);
  EXPECT_FALSE(Take(8192).empty());  // only after the cached 32 MiB went back
  EXPECT_EQ(kernel.release_calls, 1u);
  EXPECT_TRUE(Take(1).empty());
  EXPECT_EQ(heap.used(), Pages(8192));
  heap.SetHardLimit(0);
  EXPECT_FALSE(Take(1).empty());
}

struct NoReleaseTest : PageHeapTest {
  NoReleaseTest() : PageHeapTest({.release = false, .hugepages = false}) {}
};

TEST_F(NoReleaseTest, TicksGiveBackNothingButACallDoes) {
  Give(Take(10'000));
  for (int s = 0; s < 100; ++s) EXPECT_EQ(Second(true), 0u);
  EXPECT_EQ(heap.ReleaseNow(BytesOf(Pages(10'000))), BytesOf(HugePages(40)));
  EXPECT_EQ(kernel.advise_calls, 0u);
}

TEST_F(PageHeapTest, RefusedReleaseKeepsThePages) {
  const PageRange r = Take(2560);
  Give(r);
  kernel.fail_release_in = 0;
  EXPECT_EQ(heap.ReleaseNow(1 << 20), 0u);
  EXPECT_EQ(heap.free_backed(), Pages(2560));
  EXPECT_EQ(heap.ReleaseNow(1 << 20), BytesOf(HugePages(1)));
}

// A fork in the middle of releases of every kind: the child has the pages, and not the thread.
TEST_F(PageHeapTest, ChildOfAForkTakesBackWhatWasBeingReleased) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 256 * 20; ++i) runs.push_back(Take(1));
  for (int i = 0; i < 256 * 20; i += 2) Give(runs[static_cast<size_t>(i)]);
  Give(Take(2560));
  int forks = 0;
  bool in_child = false;
  kernel.on_release = [&] {
    if (in_child) return;
    ++forks;
    const pid_t pid = fork();
    if (pid == 0) {
      heap.RecoverInChild();
      const PageHeapStats s = heap.Stats();
      const auto& f = s.filler;
      bool ok = f.free + f.used + f.released == f.hugepages << kHugePageShift;
      ok = ok && f.regular + f.partly_released + f.all_released == f.hugepages;
      ok = ok && s.allocator.mapped ==
                     s.allocator.free + ((f.hugepages + s.cache.hugepages) << kHugePageShift);
      in_child = true;
      for (int i = 1; i < 256 * 20; i += 2) heap.Give(runs[static_cast<size_t>(i)]);
      heap.ReleaseNow(~size_t{0} >> 1);
      ok = ok && heap.free_backed() == Pages(0) && heap.used() == Pages(0);
      _exit(ok ? 0 : 1);
    }
    int status = -1;
    ASSERT_TRUE(waitpid(pid, &status, 0) == pid && status == 0) << status;
  };
  heap.ReleaseNow(~size_t{0} >> 1);
  EXPECT_GE(forks, 2);
}

TEST_F(PageHeapTest, ThreadsTakeAndGiveWhileOthersRelease) {
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 3; ++id) {
    threads.emplace_back([this, id] {
      std::mt19937 random(id);
      std::vector<PageRange> mine;
      for (int i = 0; i < 20'000; ++i) {
        if (mine.size() < 500 && random() % 2 == 0) {
          const PageRange r = Take(1 + random() % (random() % 64 == 0 ? 700 : 8));
          if (r.empty()) continue;
          kernel.Write(r.first.raw() * kNativePerPage, id + 1);
          mine.push_back(r);
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          ASSERT_EQ(kernel.Read(mine.back().first.raw() * kNativePerPage), id + 1);
          Give(mine.back());
          mine.pop_back();
        }
      }
      for (const PageRange& r : mine) Give(r);
    });
  }
  std::thread releaser([this] {
    for (int i = 0; i < 300; ++i) Second(i % 2 == 0), heap.ReleaseNow(kMiB);
  });
  for (std::thread& t : threads) t.join();
  releaser.join();
  heap.ReleaseNow(~size_t{0} >> 1);
  EXPECT_EQ(heap.used(), Pages(0));
  EXPECT_EQ(kernel.physical_bytes(), 0u);
}

}  // namespace
}  // namespace strata
