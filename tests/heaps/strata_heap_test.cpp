// The tiers put together over a fake kernel: large blocks, the path of small ones from the kernel
// and back, giving memory back by the clock and on request. See strata_heap_refused_test.cpp for a
// kernel that refuses.
#include "heaps/strata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "heaps/pinned_at.h"
#include "large_block_program.h"
#include "test_kernel.h"

namespace strata::test {
namespace {

using Heap = StrataHeap<TestKernel>;

constexpr Placement kLasting{.lifetime = LifetimeClass::kLong};

std::vector<void*> bad_frees;
void NoteBadFree(BadFree, void* p) { bad_frees.push_back(p); }

class StrataHeapTest : public testing::Test {
 protected:
  StrataHeapTest() { bad_frees.clear(); }

  std::vector<void*> Take(SizeClass c, size_t n) {
    std::vector<void*> out(n);
    size_t got = 0;
    while (got < n) {
      const size_t k = heap_->transfer().Take(c, &out[got], std::min(n - got, kMaxBatch));
      if (k == 0) break;
      got += k;
    }
    out.resize(got);
    return out;
  }
  void Give(SizeClass c, const std::vector<void*>& objects) {
    for (size_t i = 0; i < objects.size(); i += kMaxBatch)
      heap_->transfer().Give(c, &objects[i], std::min(kMaxBatch, objects.size() - i));
  }
  size_t Tick(size_t times, Giving giving = Giving::kOn) {
    size_t released = 0;
    for (; times > 0; --times) {
      kernel_.Advance(1000);
      released += heap_->Tick(giving).released_bytes;
    }
    return released;
  }

  TestArena memory_;
  TestKernel kernel_{HugePages(512)};
  std::unique_ptr<Heap> heap_ =
      std::make_unique<Heap>(kernel_, memory_.arena(), PageHeapOptions{}, NoteBadFree);
};

// As realloc does where a block can't grow in place.
TEST_F(StrataHeapTest, ALargeBlockMovesIntoAnotherAndIsGone) {
  constexpr size_t kMiB = 1 << 20;
  kernel_.most_moved = HugePages(2);
  heap_->large().Take(40 * kMiB, 1);  // the heap is no small one
  const LargeBlock to = heap_->large().Take(12 * kMiB, 1);
  const LargeBlockCounts before = heap_->large().counts();
  const Pages used = heap_->page_heap().used();
  for (const size_t mib : {4, 6}) {  // wholly, and but for a hugepage, which holds nothing
    const LargeBlock from = heap_->large().Take(mib * kMiB, 1);
    kernel_.Touch(from.address, 4 * kMiB, static_cast<uint32_t>(mib));
    heap_->large().GiveMoved(heap_->large().At(from.address), heap_->large().At(to.address),
                             4 * kMiB);
    EXPECT_TRUE(kernel_.Holds(to.address, 4 * kMiB, static_cast<uint32_t>(mib)));
    EXPECT_TRUE(kernel_.Holds(from.address, 4 * kMiB, 0));
    EXPECT_EQ(heap_->large().At(from.address), nullptr);
    const LargeBlockCounts after = heap_->large().counts();
    EXPECT_EQ(after.blocks, before.blocks);
    EXPECT_EQ(after.requested, before.requested);
    EXPECT_EQ(after.pages, before.pages);
    EXPECT_EQ(heap_->page_heap().used(), used);
  }
}

TEST_F(StrataHeapTest, LargeBlocksAreFoundByTheirStartOnly) {
  const LargeBlock b = heap_->large().Take(300'000, 16);
  ASSERT_NE(b.address, nullptr);
  EXPECT_TRUE(b.zeroed);
  Span* span = heap_->large().At(b.address);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(span->requested, 300'000u);
  EXPECT_EQ(heap_->large().At(static_cast<char*>(b.address) + 16), nullptr);
  EXPECT_EQ(heap_->large().At(static_cast<char*>(b.address) + kPageSize), nullptr);
  EXPECT_EQ(heap_->large().counts().blocks, 1u);
  EXPECT_EQ(heap_->large().counts().requested, 300'000u);
  EXPECT_EQ(heap_->large().counts().pages, PagesCeil(300'000));
  heap_->large().Give(span);
  EXPECT_EQ(heap_->large().At(b.address), nullptr);
  EXPECT_EQ(heap_->large().counts().blocks + heap_->large().counts().requested, 0u);
  EXPECT_EQ(heap_->large().counts().pages, Pages(0));
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

// What is said to stay long does not pin the hugepages of what comes and goes.
TEST_F(StrataHeapTest, LaysWhatStaysLongOnHugepagesOfItsOwn) {
  const SizeClass c = ClassOfSize(64 << 10);
  const auto hugepage_of = [](void* p) { return reinterpret_cast<uintptr_t>(p) >> 21; };
  std::vector<void*> passing, staying;
  std::set<uintptr_t> of_passing, of_staying;
  for (int i = 0; i < 200; ++i) {
    passing.push_back(Take(c, 1).at(0));
    staying.push_back(heap_->central().TakeIn(c, kLasting));
    ASSERT_NE(staying.back(), nullptr);
    of_passing.insert(hugepage_of(passing.back()));
    of_staying.insert(hugepage_of(staying.back()));
  }
  EXPECT_EQ(of_staying.size(), 7u) << "200 times 64 KiB, packed";
  for (uintptr_t hugepage : of_staying) EXPECT_FALSE(of_passing.contains(hugepage));
  Give(c, passing);
  heap_->EmptyCaches();
  EXPECT_EQ(heap_->page_heap().used(), Pages(200 * 8));
  for (uintptr_t hugepage : of_passing) {
    const PageId page(((hugepage << 21) - kernel_.base()) >> kPageShift);
    EXPECT_EQ(heap_->page_heap().FillOf(HugePageOf(page)).used, 0u);
  }
  Give(c, staying);
  heap_->EmptyCaches();
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
  EXPECT_TRUE(bad_frees.empty());
}

// A little of a class that lasts costs no hugepage, but where the heap has many.
TEST_F(StrataHeapTest, LaysMuchOfAClassThatLastsOnHugepagesOfItsOwn) {
  const SizeClass c = ClassOfSize(1000);
  const auto hugepage_of = [](void* p) { return reinterpret_cast<uintptr_t>(p) >> kHugePageShift; };
  const std::vector<void*> passing = Take(c, 1);
  for (int round = 0; round < 2; ++round) {
    std::vector<void*> lasting = Take(LastingClass(c), 1);
    EXPECT_EQ(hugepage_of(lasting[0]), hugepage_of(passing[0]));
    for (void* p : Take(LastingClass(c), kHugePageSize / 1000)) lasting.push_back(p);
    EXPECT_NE(hugepage_of(lasting.back()), hugepage_of(passing[0]));
    Give(LastingClass(c), lasting);
    heap_->EmptyCaches();
  }
  const LargeBlock large = heap_->large().Take(kHugePageSize * 32, 1, {});
  const std::vector<void*> lasting = Take(LastingClass(c), 1);
  EXPECT_NE(hugepage_of(lasting[0]), hugepage_of(passing[0]));
  Give(LastingClass(c), lasting);
  Give(c, passing);
  heap_->large().Give(heap_->large().At(large.address));
}

TEST_F(StrataHeapTest, LaysALargeBlockWhereItsPlacementSays) {
  const auto hugepage_of = [](const LargeBlock& b) {
    return reinterpret_cast<uintptr_t>(b.address) >> kHugePageShift;
  };
  const auto take = [&](Placement placement) {
    return heap_->large().Take(300 << 10, 1, placement);
  };
  const LargeBlock passing = take({}), staying = take(kLasting),
                   cold = take({.hotness = Hotness::kCold});
  EXPECT_NE(hugepage_of(staying), hugepage_of(passing));
  EXPECT_EQ(hugepage_of(cold), hugepage_of(staying));
  for (const LargeBlock& b : {passing, staying, cold})
    heap_->large().Give(heap_->large().At(b.address));
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

TEST_F(StrataHeapTest, HasNothingThatStaysLongWhereTheKernelRefuses) {
  kernel_.map_limit = HugePages(0);
  EXPECT_EQ(heap_->central().TakeIn(ClassOfSize(64 << 10), kLasting), nullptr);
}

TEST_F(StrataHeapTest, WhatLiesUnusedGoesDownToThePages) {
  const SizeClass c = ClassOfSize(1000);
  Give(c, Take(c, 300));  // of so many spans that the class keeps some that come empty
  heap_->GiveUnused();
  EXPECT_GT(heap_->transfer().used(c), 0u);  // came since the last time
  heap_->GiveUnused();
  EXPECT_EQ(heap_->transfer().used(c), 0u);
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

TEST_F(StrataHeapTest, CostlySpansThatComeBackAreNoGrowth) {
  const SizeClass c = ClassOfSize(32 << 10);
  Give(c, Take(c, 40));
  ASSERT_TRUE(heap_->growth().Take());
  heap_->EmptyCaches();
  const std::vector<void*> objects = Take(c, 40);
  EXPECT_FALSE(heap_->growth().Grew());
  Give(c, objects);
}

// The shares of all live blocks add up to what is free in their spans and on their hugepages.
TEST_F(StrataHeapTest, PinnedBytesAddUpToWhatIsFree) {
  std::vector<void*> kept;
  for (const size_t size : {112u, 1024u, 9000u}) {
    const SizeClass c = ClassOfSize(size);
    std::vector<void*> all = Take(c, 1000);
    ASSERT_EQ(all.size(), 1000u);
    std::vector<void*> given;
    for (size_t i = 0; i < all.size(); ++i) (i % 9 == 0 ? kept : given).push_back(all[i]);
    Give(c, given);
  }
  heap_->EmptyCaches();
  kept.push_back(heap_->large().Take(300'000, 16).address);
  PinnedBytes sum;
  for (void* p : kept) {
    const auto address = reinterpret_cast<uintptr_t>(p);
    const PinnedBytes pinned = PinnedAt(*heap_, address);
    sum.in_span += pinned.in_span;
    sum.in_hugepage += pinned.in_hugepage;
  }
  // What lies on pages of its own goes back, and pins nothing.
  std::set<uintptr_t> in_use;
  size_t live = 0;
  for (void* p : kept) {
    const auto address = reinterpret_cast<uintptr_t>(p);
    const Span* span = heap_->page_map().SpanOf(PageId((address - kernel_.base()) >> kPageShift));
    if (span->state == SpanState::kLarge) continue;
    live += InfoOf(span->size_class).size;
    const uintptr_t end = address + InfoOf(span->size_class).size;
    for (uintptr_t at = address / kNativePageSize; at * kNativePageSize < end; ++at)
      in_use.insert(at);
  }
  const size_t free_in_spans = in_use.size() * kNativePageSize - live;
  EXPECT_GT(free_in_spans, 500'000u);
  EXPECT_NEAR(sum.in_span, static_cast<double>(free_in_spans), 1);
  const PageHeapStats stats = heap_->page_heap().Stats();
  EXPECT_GT(stats.filler.free, 0u);
  EXPECT_NEAR(sum.in_hugepage, static_cast<double>(stats.filler.free), 1);
  const PinnedBytes all = PinnedInAll(*heap_);
  EXPECT_LT(sum.in_span, 0.9 * all.in_span);
  EXPECT_NEAR(sum.in_hugepage, all.in_hugepage, 1);
}

TEST_F(StrataHeapTest, PinnedBytesOfRegionsCount) {
  TestArena memory;
  TestKernel kernel{HugePages(2048)};  // a region has the addresses of a GiB
  Heap heap(kernel, memory.arena(), PageHeapOptions{}, NoteBadFree);
  void* last = nullptr;
  while (heap.page_heap().Stats().region.regions == 0) {
    last = heap.large().Take(BytesOf(Pages(kPagesPerHugePage + 1)), 1).address;
    ASSERT_NE(last, nullptr);
  }
  const PinnedBytes pinned = PinnedAt(heap, reinterpret_cast<uintptr_t>(last));
  const PageHeapStats stats = heap.page_heap().Stats();
  EXPECT_EQ(pinned.in_hugepage, static_cast<double>(stats.region.free));
  EXPECT_EQ(PinnedInAll(heap).in_hugepage,
            static_cast<double>(stats.filler.free + stats.region.free));
}

TEST_F(StrataHeapTest, ReusedLargeBlocksAreNotCalledZero) {
  const LargeBlock a = heap_->large().Take(1 << 20, 16);
  kernel_.Touch(a.address, 1 << 20, 7);
  heap_->large().Give(heap_->large().At(a.address));
  const LargeBlock b = heap_->large().Take(1 << 20, 16);
  ASSERT_EQ(b.address, a.address);
  EXPECT_FALSE(b.zeroed);
}

TEST_F(StrataHeapTest, AlignmentsUpToAGibibyte) {
  for (size_t align = 16; align <= size_t{1} << 30; align <<= 1) {
    const LargeBlock b = heap_->large().Take(5000, align);
    if (align > size_t{256} << 20) {
      // The fake window holds one such address or none.
      if (b.address == nullptr) continue;
    }
    ASSERT_NE(b.address, nullptr) << align;
    // Alignment is to the window's start; the real one starts at a multiple of 1 GiB.
    EXPECT_EQ((reinterpret_cast<uintptr_t>(b.address) - kernel_.base()) % align, 0u) << align;
    heap_->large().Give(heap_->large().At(b.address));
  }
}

TEST_F(StrataHeapTest, ImpossibleSizesAreNullAndTakeNothing) {
  for (size_t size : {~size_t{0}, ~size_t{0} - 4096, size_t{1} << 62, size_t{1} << 45}) {
    EXPECT_EQ(heap_->large().Take(size, 16).address, nullptr) << size;
  }
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
  // Not a record either, however often they are requested.
  const size_t before = memory_.arena().used_bytes();
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(heap_->large().Take(size_t{1} << 45, 16).address, nullptr);
  EXPECT_EQ(memory_.arena().used_bytes(), before);
  EXPECT_NE(heap_->large().Take(1 << 20, 16).address, nullptr);
}

TEST_F(StrataHeapTest, ResizeKeepsContentsAndAccounts) {
  const LargeBlock b = heap_->large().Take(4 << 20, 16);
  kernel_.Touch(b.address, 4 << 20, 9);
  Span* span = heap_->large().At(b.address);
  ASSERT_TRUE(heap_->large().Resize(span, 1 << 20));
  EXPECT_EQ(heap_->large().counts().requested, 1u << 20);
  EXPECT_EQ(heap_->large().counts().pages, Pages(128));
  EXPECT_EQ(heap_->page_heap().used(), Pages(128));
  EXPECT_TRUE(kernel_.Holds(b.address, 1 << 20, 9));
  ASSERT_TRUE(heap_->large().Resize(span, (1 << 20) - 5));  // within the last page
  EXPECT_EQ(heap_->large().counts().requested, (1u << 20) - 5);
  EXPECT_EQ(heap_->large().counts().pages, Pages(128));
  if (heap_->large().Resize(span, 2 << 20)) {
    EXPECT_EQ(heap_->large().counts().pages, Pages(256));
    EXPECT_TRUE(kernel_.Holds(b.address, 1 << 20, 9));
  }
  EXPECT_EQ(heap_->large().counts().moves, 1u);
  heap_->large().Give(span);
  EXPECT_EQ(heap_->large().counts().moves, 2u);
  EXPECT_EQ(heap_->large().counts().blocks, 0u);
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

// The fragmentation profile asks about a block while its thread resizes it; ThreadSanitizer
// watches.
TEST_F(StrataHeapTest, PinnedBytesOfABlockThatIsBeingResized) {
  const LargeBlock b = heap_->large().Take(3 << 20, 16);
  Span* span = heap_->large().At(b.address);
  std::atomic<bool> stop{false};
  std::thread asks([&] {
    while (!stop) {
      const PinnedBytes pinned = PinnedAt(*heap_, reinterpret_cast<uintptr_t>(b.address));
      EXPECT_EQ(pinned.in_span, 0);
      EXPECT_LE(pinned.in_hugepage, kHugePageSize);
    }
  });
  for (int i = 0; i < 2000; ++i) heap_->large().Resize(span, i % 2 == 0 ? 1 << 20 : 3 << 20);
  stop = true;
  asks.join();
  heap_->large().Give(span);
}

TEST_F(StrataHeapTest, GrowthStopsAtANeighbour) {
  const LargeBlock a = heap_->large().Take(512 << 10, 16);
  const LargeBlock b = heap_->large().Take(512 << 10, 16);
  const auto lower = std::min(a.address, b.address);
  const auto upper = std::max(a.address, b.address);
  ASSERT_EQ(static_cast<char*>(lower) + (512 << 10), upper);
  EXPECT_FALSE(heap_->large().Resize(heap_->large().At(lower), 513 << 10));
  EXPECT_EQ(heap_->large().counts().pages, Pages(128));
  EXPECT_EQ(heap_->large().counts().requested, 1u << 20);
}

TEST_F(StrataHeapTest, RandomLargeBlocksDoNotOverlapAndKeepTheirContents) {
  LargeBlockProgram program(*heap_, kernel_, 4);
  std::mt19937& random = program.random();
  for (int step = 0; step < 1500 && !HasFatalFailure(); ++step) {
    program.Step([&] { return 1 + random() % (random() % 8 == 0 ? 6 << 20 : 600'000); });
    if (step % 100 == 0) Tick(1);
  }
  program.GiveAll();
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
  heap_->ReleaseNow(SIZE_MAX);
  EXPECT_EQ(kernel_.physical_bytes(), 0u);
}

TEST_F(StrataHeapTest, SmallObjectsComeFromSpansTheyAreMappedTo) {
  for (const size_t size : {8, 48, 1024, 20'000, 262'144}) {
    const SizeClass c = ClassOfSize(size);
    const std::vector<void*> objects = Take(c, 50);
    ASSERT_EQ(objects.size(), 50u);
    EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), 50u);
    for (void* p : objects) {
      const size_t offset = reinterpret_cast<uintptr_t>(p) - kernel_.base();
      EXPECT_EQ(heap_->page_map().ClassOf(PageId(offset >> kPageShift)), c);
      EXPECT_EQ(heap_->large().At(p), nullptr);
    }
    Give(c, objects);
  }
  heap_->ReleaseNow(SIZE_MAX);
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

TEST_F(StrataHeapTest, SpansOfManyAndOfFewObjectsShareHugepagesOnlyWhenToldTo) {
  const SizeClass many = ClassOfSize(64);
  const SizeClass few = ClassOfSize(16 << 10);
  for (const FillerGroups groups : {FillerGroups::kByDensity, FillerGroups::kAsSaid}) {
    TestKernel kernel{HugePages(64)};
    Heap heap(kernel, memory_.arena(), {.filler_groups = groups}, NoteBadFree);
    void* of_many[1];
    void* of_few[1];
    ASSERT_EQ(heap.central().Take(many, of_many, 1), 1u);
    ASSERT_EQ(heap.central().Take(few, of_few, 1), 1u);
    const auto hugepage = [&](void* p) {
      return (reinterpret_cast<uintptr_t>(p) - kernel.base()) >> kHugePageShift;
    };
    EXPECT_EQ(hugepage(of_many[0]) == hugepage(of_few[0]), groups == FillerGroups::kAsSaid);
    heap.central().Give(many, of_many, 1);
    heap.central().Give(few, of_few, 1);
  }
}

TEST_F(StrataHeapTest, ABadFreeReachesTheHandler) {
  const SizeClass c = ClassOfSize(64);
  const std::vector<void*> objects = Take(c, 2);
  void* twice[] = {objects[0], objects[0]};
  heap_->central().Give(c, twice, 2);
  EXPECT_EQ(bad_frees, std::vector<void*>{objects[0]});
}

TEST_F(StrataHeapTest, AnIdleProgramGetsBackEvenPagesInsideSpans) {
  const SizeClass c = ClassOfSize(1024);
  std::vector<void*> objects = Take(c, 32 * 1024);  // 32 MiB
  std::sort(objects.begin(), objects.end());
  for (void* p : objects) kernel_.Touch(p, 1, 5);
  // One survivor in 32: no span comes free, seven of eight native pages do.
  std::vector<void*> survivors, dying;
  for (size_t i = 0; i < objects.size(); ++i)
    (i % 32 == 0 ? survivors : dying).push_back(objects[i]);
  Give(c, dying);
  const size_t before = kernel_.physical_bytes();
  ASSERT_GE(before, size_t{32} << 20);
  size_t released = 0;
  for (int second = 0; second < 10; ++second) released += Tick(1);
  EXPECT_GT(released, size_t{24} << 20);
  EXPECT_LE(kernel_.physical_bytes(), 2 * survivors.size() * kNativePageSize);
  for (void* p : survivors) EXPECT_TRUE(kernel_.Holds(p, 1, 5));
  Give(c, survivors);
  heap_->ReleaseNow(SIZE_MAX);
  EXPECT_EQ(kernel_.physical_bytes(), 0u);
}

// Its calls are all served by the caches above, or it makes none.
TEST_F(StrataHeapTest, AProgramThatComputesKeepsItsHugepages) {
  const SizeClass c = ClassOfSize(1024);
  std::vector<void*> objects = Take(c, 200'000);
  for (void* p : objects) kernel_.Touch(p, 1024, 1);
  std::sort(objects.begin(), objects.end());
  std::vector<void*> dying;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 64 < 12) dying.push_back(objects[i]);  // three of sixteen native pages
  }
  Give(c, dying);
  for (int i = 0; i < 100; ++i) {
    kernel_.Advance(1000);
    heap_->Tick(Giving::kOn, CpuUse::kMuch);
  }
  EXPECT_LT(heap_->page_heap().Stats().filler.in_use_released, kHugePageSize);
  Tick(10);
  EXPECT_GT(heap_->page_heap().Stats().filler.in_use_released, 30'000'000u);
}

TEST_F(StrataHeapTest, WithReleaseOffTicksGiveNothingBack) {
  const SizeClass c = ClassOfSize(1024);
  const std::vector<void*> objects = Take(c, 8192);
  for (void* p : objects) kernel_.Touch(p, 1, 5);
  Give(c, objects);
  const size_t before = kernel_.physical_bytes();
  EXPECT_EQ(Tick(60, Giving::kOff), 0u);
  EXPECT_EQ(kernel_.physical_bytes(), before);
  EXPECT_EQ(kernel_.release_calls, 0u);
}

TEST_F(StrataHeapTest, ABusyProgramIsNotCalledIdle) {
  const SizeClass c = ClassOfSize(262'144);
  for (int second = 0; second < 20; ++second) {
    for (int i = 0; i < 400; ++i) {
      std::vector<void*> objects(4);
      ASSERT_EQ(heap_->central().Take(c, objects.data(), 4), 4u);
      heap_->central().Give(c, objects.data(), 4);
    }
    kernel_.Advance(1000);
    EXPECT_FALSE(heap_->Tick(Giving::kOn).idle) << second;
  }
  kernel_.Advance(1000);
  EXPECT_TRUE(heap_->Tick(Giving::kOn).idle);
}

TEST_F(StrataHeapTest, ReleaseNowGivesBackAtLeastWhatIsAskedIfItIsThere) {
  const SizeClass c = ClassOfSize(4096);
  std::vector<void*> objects = Take(c, 8192);  // 32 MiB
  for (void* p : objects) kernel_.Touch(p, 4096, 5);
  std::sort(objects.begin(), objects.end());
  Give(c, {objects.begin() + 4096, objects.end()});
  const size_t before = kernel_.physical_bytes();
  EXPECT_GE(heap_->ReleaseNow(4 << 20), 4u << 20);
  EXPECT_LE(kernel_.physical_bytes(), before - (4 << 20));
  heap_->ReleaseNow(SIZE_MAX);
  EXPECT_LE(kernel_.physical_bytes(), (size_t{16} << 20) + (1 << 20));
  for (size_t i = 0; i < 4096; ++i) ASSERT_TRUE(kernel_.Holds(objects[i], 4096, 5));
}

TEST_F(StrataHeapTest, ARefusedReleaseLosesNothing) {
  const SizeClass c = ClassOfSize(4096);
  const std::vector<void*> objects = Take(c, 4096);
  for (void* p : objects) kernel_.Touch(p, 4096, 5);
  Give(c, objects);
  kernel_.fail_release_in = 0;
  heap_->ReleaseNow(SIZE_MAX);
  kernel_.fail_release_in = -1;
  heap_->ReleaseNow(SIZE_MAX);
  EXPECT_EQ(kernel_.physical_bytes(), 0u);
  EXPECT_EQ(Take(c, 4096).size(), 4096u);
}

}  // namespace
}  // namespace strata::test
