// The same random program on stacks of many kinds, each with the Check oracle spliced in at the
// top, and with what the last source handed out counted at the bottom: all of it must come back.
#include "heap_model.h"
#include "strata/layers/bins.h"
#include "strata/layers/bump.h"
#include "strata/layers/check.h"
#include "strata/layers/chunk.h"
#include "strata/layers/coalesce.h"
#include "strata/layers/count.h"
#include "strata/layers/free_list.h"
#include "strata/layers/growing_source.h"
#include "strata/layers/guard.h"
#include "strata/layers/locked.h"
#include "strata/layers/log.h"
#include "strata/layers/mmap_source.h"
#include "strata/layers/size_header.h"
#include "strata/layers/split.h"
#include "strata/layers/splitting_bins.h"
#include "strata/layers/static_source.h"
#include "strata/layers/try_first.h"
#include "strata/layers/zeroed.h"

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
    Stack<Check, SplittingBins<Steps<16, 1024>>, Bump<>, Count, Mmap>,
    Stack<Check, Coalesce<>, Count, Mmap>, Stack<Check, Coalesce<>, Growing<>>,
    Stack<Check, Coalesce<65536, FirstFit>, Count, Mmap>,
    Stack<Check, SplitAt<256, Bins<Steps<16, 256>, FreeList>, Bump<>>, Coalesce<>, Count, Mmap>,
    Stack<Check, TryFirst<StaticBuffer<4096>>, Coalesce<>, Count, Mmap>,
    Stack<Check, GuardPages, Count, Mmap>,
    Stack<Check, Locked, Zeroed, Log, Chunk<64>, Coalesce<>, Count, Mmap>>;
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

TEST(ComposedLayer, IsFoundByName) {
  Stack<Count, Zeroed, Bump<>, Mmap> heap;
  void* p = heap.allocate(10);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(layer<Count>(heap).counts().bytes, 10u);
  EXPECT_EQ(layer<Bump<>>(heap).held(), size_t{64} << 10);
}

TEST(ComposedFacts, FollowTheLayers) {
  static_assert(Stack<Locked, FreeList, Mmap>::thread_safe);
  static_assert(!Stack<FreeList, Mmap>::thread_safe);
  static_assert(!Stack<Count, Locked, Mmap>::thread_safe);
  static_assert(Stack<Bump<>, Mmap>::alignment == 16);
  static_assert(SizedHeap<Stack<SizeHeader, Bump<>, Mmap>>);
  static_assert(SizedHeap<Stack<Locked, Coalesce<>, Mmap>>);
  static_assert(!SizedHeap<Stack<Bump<>, Mmap>>);
  static_assert(ClearableHeap<Stack<Locked, Count, Bins<Pow2, FreeList>, Bump<>, Mmap>>);
  static_assert(sizeof(Stack<Zeroed, Chunk<64>, Mmap>) == 1, "layers without state cost nothing");
}

}  // namespace
}  // namespace strata::layers
