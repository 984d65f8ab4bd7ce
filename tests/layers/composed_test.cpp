// The same random program on stacks of many kinds, each with the Check oracle spliced in at the
// top, and with what the last source handed out counted at the bottom: all of it must come back.
#include "heap_model.h"
#include "strata/layers.h"

namespace strata::layers {
namespace {

template <class H>
class ComposedTest : public testing::Test {};

using Pow2 = PowersOfTwo<16, 32768>;
using Stacks = testing::Types<
    Stack<Check, Mmap>, Stack<Check, Bump<>, Count, Mmap>,
    Stack<Check, Bins<Pow2, FreeList>, Bump<>, Count, Mmap>,
    Stack<Check, Bins<Geometric<32768>, BoundedFreeList<8>>, Coalesce<>, Count, Mmap>,
    Stack<Check, SizeHeader, Bins<Pow2, FreeList>, Bump<>, Count, Mmap>,
    Stack<Check, Coalesce<>, Count, Mmap>, Stack<Check, Coalesce<>, Growing<>>,
    Stack<Check, Coalesce<65536, FirstFit>, Count, Mmap>,
    Stack<Check, SplitAt<256, Bins<Steps<16, 256>, FreeList>, Bump<>>, Coalesce<>, Count, Mmap>,
    Stack<Check, TryFirst<StaticBuffer<4096>>, Coalesce<>, Count, Mmap>,
    Stack<Check, GuardPages, Count, Mmap>, Stack<Check, Coalesce<>, Sbrk>,
    Stack<Check, DeferredPop, Obstack<8192>, Count, Mmap>,
    Stack<Check, Locked, Zeroed, Log, Coalesce<>, Count, Mmap>>;
TYPED_TEST_SUITE(ComposedTest, Stacks);

TYPED_TEST(ComposedTest, KeepsBlocksApartAndWhole) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    TypeParam heap;
    RunModel(heap, 4000, seed, MixedSize);
  }
}

TYPED_TEST(ComposedTest, AnswersEnormousRequestsWithNull) {
  TypeParam heap;
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.allocate(kMaxRequest), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX - 15), nullptr);
  void* p = heap.allocate(100);  // and goes on
  ASSERT_NE(p, nullptr);
  heap.deallocate(p, 100);
}

TYPED_TEST(ComposedTest, HandsOutDistinctBlocksOfNoBytes) {
  TypeParam heap;
  void* a = heap.allocate(0);
  void* b = heap.allocate(0);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  heap.deallocate(a, 0);
  heap.deallocate(b, 0);
}

template <class H>
class FullTest : public testing::Test {};

template <class... Layers>
using OnWhole = Stack<Check, Layers..., Apart<2048, Mmap>, Coalesce<>, Mmap>;
using FullStacks = testing::Types<
    OnWhole<>, OnWhole<Bins<TaggedSteps<520>, FreeList>>,
    OnWhole<Bins<Steps<16, 4096>, BoundedFreeList<8>>>,
    OnWhole<Count, Log, Trace, Profile, FailNth>, OnWhole<Locked, Zeroed>,
    OnWhole<LockedWhenShared>, Stack<Nested, Check, Reap<>, Mmap>, OnWhole<Header<long>>,
    Stack<Check, TryFirst<Stack<Reap<>, StaticBuffer<16384>>>, Coalesce<>, Mmap>,
    Stack<Check, Count, Reap<>, Mmap>, Stack<Check, SizeHeader, Bins<Pow2, FreeList>, Bump<>, Mmap>,
    Stack<Check, Listed, Mmap>, Stack<Check, OnlyLive, Reap<4096, 32768>, Mmap>,
    Stack<Check, Apart<2048, Mmap, 2048>, DeferredPop, Obstack<8192>, Mmap>,
    Stack<Check, Count, ClassHeader, Bins<PowersOfTwo<32, 1 << 20>, FreeList>, Bump<1 << 20, 8>,
          Mmap>>;
TYPED_TEST_SUITE(FullTest, FullStacks);

TYPED_TEST(FullTest, KeepsBlocksThatAreAlignedResizedAndMoved) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    TypeParam heap;
    RunFullModel(heap, 6000, seed, MixedSize);
  }
}

template <class H>
class ClearTest : public testing::Test {};

// Over Coalesce, which lets go of its regions: a layer that kept on to one would fault.
template <class... Layers>
using Cleared = Stack<Check, Layers..., Coalesce<4096>, Mmap>;
using ClearStacks =
    testing::Types<Cleared<>, Cleared<Bump<4096>>, Cleared<Obstack<>>, Cleared<Reap<>>,
                   Cleared<DeferredPop, Obstack<>>, Cleared<OnlyLive, Reap<>>,
                   Cleared<Fixed<65536>, FreeList>, Cleared<Fixed<65536>, Inbox>, Cleared<Listed>,
                   Cleared<SplitAt<256, Bins<Steps<16, 256>, FreeList>, Bump<>>>,
                   Cleared<SplitAt<256, Bump<4096>>>, Cleared<SplitAt<256, Obstack<>>>,
                   Cleared<SplitAt<256, Reap<>>>, Cleared<SplitAt<256, Coalesce<4096>>>,
                   Cleared<SplitAt<256, Listed>>, Cleared<Count, Log, Trace, Profile, FailNth>,
                   Cleared<SizeHeader, Bins<Pow2, BoundedFreeList<4>>>,
                   Cleared<PrivateHeaps<2, CpuIndex, Locked, Bins<Pow2, FreeList>>, Locked>,
                   Cleared<OwnedHeaps<2, CpuIndex, Locked, Coalesce<4096>>, Locked>,
                   Stack<Nested, Check, ClassHeader, Bins<PowersOfTwo<16, 65536>, FreeList>,
                         Coalesce<4096>, Mmap>>;
TYPED_TEST_SUITE(ClearTest, ClearStacks);

TYPED_TEST(ClearTest, IsAsNewAfterIt) {
  TypeParam heap;
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<ModelBlock> live;
    for (int i = 0; i < 500; ++i) {
      const ModelBlock b{nullptr, MixedSize(random), static_cast<unsigned char>(i)};
      live.push_back(b);
      live.back().p = static_cast<unsigned char*>(heap.allocate(b.size));
      ASSERT_NE(live.back().p, nullptr);
      Fill(live.back());
      if (i % 3 != 0) continue;
      const size_t at = random() % live.size();
      ASSERT_TRUE(Intact(live[at]));
      heap.deallocate(live[at].p, live[at].size);
      live.erase(live.begin() + static_cast<long>(at));
    }
    for (const ModelBlock& b : live) ASSERT_TRUE(Intact(b));
    heap.clear();
    EXPECT_LE(layer<Coalesce<4096>>(heap).held(), 1u << 20) << "a chunk may stay";
  }
}

// What a source gives and gets, to see that a stack's end gives everything back.
struct Ledger {
  size_t blocks = 0;
  size_t bytes = 0;
};
class LedgerSource {
 public:
  static constexpr size_t alignment = 4096;
  static constexpr bool thread_safe = false;
  explicit LedgerSource(Ledger* ledger) : ledger_(ledger) {}
  void* allocate(size_t size) {
    void* p = below_.allocate(size);
    if (p != nullptr) {
      ++ledger_->blocks;
      ledger_->bytes += size;
    }
    return p;
  }
  void deallocate(void* p, size_t size) {
    --ledger_->blocks;
    ledger_->bytes -= size;
    below_.deallocate(p, size);
  }

 private:
  Mmap below_;
  Ledger* ledger_;
};

template <class... Layers>
void ExpectAllGivenBack() {
  Ledger ledger;
  {
    Stack<Layers..., LedgerSource> heap(&ledger);
    RunModel(heap, 3000, 7, MixedSize);
    void* leaked = heap.allocate(77);  // goes with the heap
    ASSERT_NE(leaked, nullptr);
    EXPECT_GT(ledger.bytes, 0u);
  }
  EXPECT_EQ(ledger.blocks, 0u);
  EXPECT_EQ(ledger.bytes, 0u);
}

TEST(ComposedEnd, GivesEverythingBack) {
  ExpectAllGivenBack<Bump<>>();
  ExpectAllGivenBack<Bins<Pow2, FreeList>, Bump<>>();
  ExpectAllGivenBack<Coalesce<>>();
  ExpectAllGivenBack<Bins<Steps<16, 512>, BoundedFreeList<4>>, Coalesce<65536>>();
  ExpectAllGivenBack<SplitAt<128, Bins<Steps<16, 128>, FreeList>, Bump<4096>>, Coalesce<>>();
}

// Each round takes as much as the one before: nothing is left behind below.
template <class... Layers>
void ExpectNoGrowthOverClears() {
  Ledger ledger;
  Stack<Layers..., LedgerSource> heap(&ledger);
  size_t first = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 40; ++i) ASSERT_NE(heap.allocate(60000), nullptr);
    if (round == 0) first = ledger.bytes;
    ASSERT_LE(ledger.bytes, first) << round;
    heap.clear();
  }
}

TEST(ComposedClear, LeavesNothingBehindBelow) {
  ExpectNoGrowthOverClears<Coalesce<65536>, Bump<size_t{1} << 20>>();
  ExpectNoGrowthOverClears<Coalesce<65536>, Fixed<65536>, BoundedFreeList<4>>();
  ExpectNoGrowthOverClears<Bins<Pow2, FreeList>, Coalesce<65536>, Fixed<65536>, FreeList>();
}

TEST(ComposedCoalesce, GivesEachRegionBackInAnyOrder) {
  constexpr size_t kRegions = 50;
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    Ledger ledger;
    Stack<Coalesce<4096>, LedgerSource> heap(&ledger);
    std::vector<void*> blocks;
    for (size_t i = 0; i < kRegions; ++i) blocks.push_back(heap.allocate(3000));
    EXPECT_EQ(ledger.blocks, kRegions);
    if (round != 0) std::shuffle(blocks.begin(), blocks.end(), random);
    // The newest region stays, whichever block it holds.
    for (size_t i = 0; i < kRegions; ++i) {
      heap.deallocate(blocks[i]);
      EXPECT_LE(ledger.blocks, kRegions - i);
    }
    EXPECT_EQ(ledger.blocks, 1u);
    EXPECT_EQ(heap.held(), ledger.bytes);
  }
}

TEST(ComposedLayer, IsFoundByName) {
  Stack<Count, Zeroed, Bump<>, Mmap> heap;
  void* p = heap.allocate(10);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(layer<Count>(heap).counts().bytes, 10u);
  EXPECT_EQ(layer<Bump<>>(heap).held(), size_t{64} << 10);
}

TEST(ComposedFacts, FollowTheLayers) {
  static_assert(Stack<Locked, Fixed<8>, FreeList, Mmap>::thread_safe);
  static_assert(!Stack<Fixed<8>, FreeList, Mmap>::thread_safe);
  static_assert(!Stack<Count, Locked, Mmap>::thread_safe);
  static_assert(Stack<Bump<>, Mmap>::alignment == 16);
  static_assert(SizedHeap<Stack<SizeHeader, Bump<>, Mmap>>);
  static_assert(SizedHeap<Stack<Locked, Coalesce<>, Mmap>>);
  static_assert(!SizedHeap<Stack<Bump<>, Mmap>>);
  static_assert(ClearableHeap<Stack<Locked, Count, Bins<Pow2, FreeList>, Bump<>, Mmap>>);
  static_assert(sizeof(Stack<Zeroed, Mmap>) == 1, "layers without state cost nothing");
}

}  // namespace
}  // namespace strata::layers
