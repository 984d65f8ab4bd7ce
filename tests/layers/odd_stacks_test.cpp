// Stacks that nobody would write but that are legal by docs/layers.md: layers in unusual order,
// twice, or over parts of other heaps. Under Check each runs the random programs of heap_model.h,
// with all that it offers: aligned blocks, resizing, moving, and clear() with blocks out.
#include "heap_model.h"
#include "strata/layers.h"

namespace strata::layers {
namespace {

// Clears a heap again and again with blocks out, and some freed before.
template <ClearableHeap H>
void RunClears(H& heap, unsigned seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < 10; ++round) {
    std::vector<ModelBlock> live;
    for (int i = 0; i < 300; ++i) {
      ModelBlock b{nullptr, MixedSize(random), static_cast<unsigned char>(i)};
      b.p = static_cast<unsigned char*>(heap.allocate(b.size));
      ASSERT_NE(b.p, nullptr);
      Fill(b);
      live.push_back(b);
      if (i % 3 != 0) continue;
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(Intact(live.back()));
      heap.deallocate(live.back().p, live.back().size);
      live.pop_back();
    }
    for (const ModelBlock& b : live) ASSERT_TRUE(Intact(b));
    heap.clear();
  }
}

template <class H>
class OddStack : public testing::Test {};

template <class... Layers>
using Odd = Stack<Check, Layers...>;
using Pow2 = PowersOfTwo<16, 32768>;
using Odds = testing::Types<
    Odd<Count, Header<long>, SizeHeader, Bins<Pow2, BoundedFreeList<3>>,
        Bins<Steps<16, 1024>, FreeList>, Bump<4096>, Mmap>,
    Stack<Nested, Check, Zeroed, DeferredPop, Obstack<4096>, Mmap>,
    Odd<Listed, TryFirst<StaticBuffer<1024>>, Header<int>, Coalesce<4096, FirstFit>, Growing<>>,
    Odd<SplitAt<100, Reap<4096, 4096>>, Bins<Steps<16, 512>, FreeList>, Coalesce<>, Mmap>,
    Odd<Header<short>, Listed, Reap<4096, 65536>, Coalesce<65536>, Sbrk>,
    Odd<OwnedHeaps<3, ThreadIndex, Locked, Check, Reap<>>, Locked, Coalesce<>, Mmap>,
    Odd<PrivateHeaps<2, CpuIndex, LockedWhenShared, Bins<Geometric<4096>, FreeList>, Bump<4096>>,
        Mmap>,
    Odd<ClassHeader, Bins<PowersOfTwo<32, 1 << 17>, BoundedFreeList<2>>, Check, Coalesce<4096>,
        Mmap>,
    Odd<ClassHeader, Bins<PowersOfTwo<64, 1 << 17>, FreeList>, Check, Bump<8192, 8>, Coalesce<>,
        Mmap>,
    Odd<Apart<1024, Mmap>, Coalesce<65536, TreeFit>, TryFirst<StaticBuffer<65536>>, Mmap>,
    Odd<Bins<TaggedSteps<520>, FreeList, Inbox>, Coalesce<4096>, Growing<>>,
    Odd<Capped<>, Reap<>, Coalesce<>, Capped<>, Mmap>, Odd<Capped<1 << 30>, Malloc>,
    Odd<PrivateHeaps<2, ThreadIndex, Bins<Geometric<4096>, FreeList>, Bump<4096>>, Locked,
        Upstream>,
    Odd<Locked, Zeroed, GuardPages, Mmap>, Odd<Listed, BasicGuardPages<64>, Mmap>,
    Odd<SizeHeader, SplitAt<512, GuardPages>, Mmap>,
    Odd<TryFirst<Stack<Locked, Coalesce<4096>, StaticBuffer<32768>>>, Apart<4096, Mmap>, Coalesce<>,
        Sbrk>,
    Odd<OnlyLive, Reap<4096, 8192>, Listed, Bump<4096>, Mmap>,
    Stack<Nested, Check, Bump<8192>, Reap<>, Mmap>,
    Odd<Count, ThreadBuffers<>, Hoard<>, AlignedMmap<65536>>,
    Odd<Header<long>, Hoard<>, AlignedMmap<65536>>,
    Odd<Bins<Geometric<4096>, BoundedFreeList<5>, Count>, SplitAt<8192, Coalesce<4096>>, Mmap>,
    Odd<FailNth, Profile, Trace, Log, LockedWhenShared, DeferredPop, Obstack<>, Coalesce<65536>,
        Sbrk>,
    Odd<Bins<Steps<16, 1024>, FreeList>, TryFirst<Stack<Bump<4096>, StaticBuffer<16384>>>, Listed,
        Mmap>>;
TYPED_TEST_SUITE(OddStack, Odds);

TYPED_TEST(OddStack, RunsTheRandomPrograms) {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    TypeParam heap;
    RunModel(heap, 3000, seed, MixedSize);
    if constexpr (SizedHeap<TypeParam>) RunFullModel(heap, 3000, seed, MixedSize);
    if constexpr (ClearableHeap<TypeParam>) {
      RunClears(heap, seed);
      RunModel(heap, 1500, seed, MixedSize);
    }
  }
}

// A sanitizer's operator new ends the program for what any other refuses: what could reach it there
// is not asked.
#ifdef STRATA_SANITIZED
constexpr size_t kTooMuch[] = {SIZE_MAX, SIZE_MAX - 15};
#else
constexpr size_t kTooMuch[] = {SIZE_MAX, SIZE_MAX - 15, kMaxRequest, kMaxRequest - 4096};
#endif

TYPED_TEST(OddStack, RefusesWhatIsTooMuch) {
  TypeParam heap;
  for (size_t size : kTooMuch) {
    EXPECT_EQ(heap.allocate(size), nullptr);
    if constexpr (AlignedHeap<TypeParam>) {
      EXPECT_EQ(heap.allocate(size, 64), nullptr);
      EXPECT_EQ(heap.allocate(16, size_t{1} << 62), nullptr);
    }
  }
  RunModel(heap, 500, 1, MixedSize);
}

}  // namespace
}  // namespace strata::layers
