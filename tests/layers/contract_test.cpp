// Where a layer could hand out what is not its to give, or give back what it never had: each case a
// composition that once did.
#include <gtest/gtest.h>

#include <map>
#include <memory_resource>
#include <set>

#include "heap_model.h"
#include "strata/layers.h"

namespace strata::layers {
namespace {

// --- Bins whose layers cut blocks, or shift them, over a heap that knows its own

template <class... PerBin>
using OverCoalesce = Stack<Check, Bins<Geometric<1024>, PerBin...>, Coalesce<>, Mmap>;

// The heap below does not know such blocks, so nothing may be asked of it about them.
template <class... PerBin>
constexpr bool kOnlyBySize =
    !SizedHeap<OverCoalesce<PerBin...>> && !AlignedHeap<OverCoalesce<PerBin...>> &&
    !ResizableHeap<OverCoalesce<PerBin...>>;

template <class Layer>
using Private =
    Stack<Bins<Geometric<1024>, PrivateHeaps<2, ThreadIndex, Layer>>, Locked, Coalesce<>, Mmap>;

TEST(Bins, AskNothingBelowAboutBlocksThatWereCutOrShifted) {
  static_assert(kOnlyBySize<FreeList, Bump<>>);
  static_assert(kOnlyBySize<SizeHeader, FreeList>);
  static_assert(kOnlyBySize<Header<long>, FreeList>);
  static_assert(kOnlyBySize<Locked, Bump<>>);
  static_assert(!kOnlyBySize<FreeList> && !kOnlyBySize<BoundedFreeList<4>, Inbox>);
  static_assert(!kOnlyBySize<Locked, FreeList> && !kOnlyBySize<Zeroed, Log>);
  static_assert(SizedHeap<Private<FreeList>> && !SizedHeap<Private<Bump<>>>);
  using OverMalloc = Stack<Bins<Geometric<1024>, Bump<>>, Malloc>;
  static_assert(!SizedHeap<OverMalloc> && !RemappingHeap<OverMalloc>);
  OverCoalesce<FreeList, Bump<>> cut;
  RunModel(cut, 3000, 1, MixedSize);
  OverCoalesce<Header<long>, FreeList> shifted;
  RunModel(shifted, 3000, 2, MixedSize);
}

// A block that was cut for more than its class goes down as it is.
TEST(BoundedFreeList, SendsDownWithTheSizeThatTheHeapBelowKnows) {
  Stack<Bins<Geometric<4096>, BoundedFreeList<1>, Inbox>, Check, Coalesce<>, Mmap> heap;
  void *a = heap.allocate(4100), *b = heap.allocate(4100);
  heap.deallocate(a);
  heap.deallocate(b);  // Check ends the program at a wrong size
}

#ifndef NDEBUG
// A layer of one's own that takes the place of Fixed.
struct TooSmall {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool one_size = false;
    void* allocate(size_t) { return this->next_.allocate(4); }
    void deallocate(void* p, size_t) { this->next_.deallocate(p, 4); }
  };
};

TEST(FreeList, RefusesBlocksWithoutRoomForItsLink) {
  EXPECT_DEATH((Stack<TooSmall, FreeList, Bump<>, Mmap>().allocate(4)), "holds a link");
  EXPECT_DEATH((Stack<TooSmall, BoundedFreeList<4>, Bump<>, Mmap>().allocate(4)), "holds a link");
}
#endif

// --- Lists under a layer that takes more than it is asked for, and in bins of many layers

// A source for which each block has to come back as it was.
struct Exact {
  static constexpr size_t alignment = 16;
  static constexpr bool thread_safe = false;
  ~Exact() { EXPECT_TRUE(out.empty()) << "not all came back"; }
  void* allocate(size_t size) {
    void* p = malloc(size);
    out[p] = size;
    return p;
  }
  void deallocate(void* p, size_t size) {
    EXPECT_EQ(out[p], size);
    out.erase(p);
    free(p);
  }
  std::map<void*, size_t> out;
};
template <class... Layers>
void ExpectSizesToComeBack() {
  Stack<Layers..., Exact> heap;
  void* blocks[8];
  for (void*& p : blocks) p = heap.allocate(30);
  for (size_t i = 1; i < 8; ++i) heap.deallocate(blocks[i], 30);
  if constexpr (!ClearableHeap<decltype(heap)>) heap.deallocate(blocks[0], 30);
}
TEST(Bins, TellBelowWhatTheirHeadersTook) {
  using Classes = Steps<16, 256>;
  ExpectSizesToComeBack<Bins<Classes, Header<long>, BoundedFreeList<2>>>();
  ExpectSizesToComeBack<Bins<Classes, SizeHeader, FreeList>>();
  ExpectSizesToComeBack<Bins<Classes, Listed, BoundedFreeList<2>>>();
}
// What is out at its end goes to lists that were emptied before.
TEST(Listed, GivesAllBackThroughListsBelow) {
  ExpectSizesToComeBack<Fixed<64>, Listed, FreeList>();
  Stack<Bins<Steps<16, 256>, Listed, FreeList>, Exact> bins;
  bins.allocate(30);
}

template <class... Layers>
void ExpectAllComesBack(size_t size) {
  Stack<Count, Mmap> below;
  {
    Stack<Layers..., Check, Ref<decltype(below)>> heap(below);
    heap.deallocate(heap.allocate(size), size);
  }
  EXPECT_EQ(below.counts().bytes, 0u);
}
TEST(FreeList, GivesBackBlocksAsLargeAsTheyWere) {
  ExpectAllComesBack<Fixed<64>, SizeHeader, FreeList>(64);
  ExpectAllComesBack<Fixed<64>, Header<long>, FreeList>(64);
  ExpectAllComesBack<Fixed<64>, Listed, BoundedFreeList<4>>(64);
  ExpectAllComesBack<Fixed<64>, GuardPages, FreeList>(64);
  ExpectAllComesBack<Fixed<64>, OwnedHeaps<4, ThreadIndex, Locked, FreeList>, Locked>(64);
}
TEST(Bins, GiveBackWhatTheirLayersKeep) {
  using Classes = PowersOfTwo<16, 8192>;
  ExpectAllComesBack<Bins<Classes, FreeList, GuardPages>>(5000);
  ExpectAllComesBack<Bins<Classes, Locked, FreeList, TryFirst<StaticBuffer<4096>>>>(5000);
  ExpectAllComesBack<Bins<Classes, FreeList, SplitAt<64, Bump<>>>>(5000);
  ExpectAllComesBack<Bins<Classes, Fixed<64>, FreeList, GuardPages>>(40);
  ExpectAllComesBack<Fixed<60>, Bins<Classes, FreeList>, FreeList>(60);
  ExpectAllComesBack<Fixed<9000>, Bins<Classes, FreeList>, BoundedFreeList<2>>(9000);
}

// Over a resource that others use, too: what lies behind a block of a few bytes may be theirs.
template <class... Layers>
void ExpectLinksToFit() {
  std::pmr::monotonic_buffer_resource shared;
  Stack<Layers..., Upstream> heap(&shared);
  void* p = heap.allocate(3);
  const ModelBlock theirs{static_cast<unsigned char*>(shared.allocate(5, 1)), 5, 0x77};
  Fill(theirs);
  heap.deallocate(p, 3);
  EXPECT_TRUE(Intact(theirs));
  EXPECT_EQ(heap.allocate(3), p);
  heap.deallocate(p, 3);
}
TEST(FreeList, HasRoomForItsLinks) {
  ExpectLinksToFit<Fixed<3>, FreeList>();
  ExpectLinksToFit<Fixed<3>, Header<long>, BoundedFreeList<2>>();
  ExpectLinksToFit<Bins<PowersOfTwo<2, 64>, FreeList>>();
  ExpectLinksToFit<Bins<Steps<4, 64>, Locked, FreeList>>();
}

// Aligned blocks take more than others of their size, and a list has but one.
TEST(SizeHeader, AlignsOnlyOverAHeapForAnySize) {
  using Listed = Stack<Fixed<64>, SizeHeader, FreeList, Coalesce<>, Mmap>;
  static_assert(SizedHeap<Listed> && !AlignedHeap<Listed>);
}

// --- Aligned blocks of no bytes, which must not begin where another block does

template <class... Layers>
void ExpectAlignedBlocksToLieInside() {
  Stack<Layers..., StaticBuffer<8192>> heap;
  for (int i = 0; i < 200; ++i) {  // the last that fits ends with the buffer
    void* p = heap.allocate(0, 64);
    EXPECT_TRUE(p == nullptr || heap.owns(p));
  }
}
TEST(AlignedBlocks, OfNoBytesLieInside) {
  ExpectAlignedBlocksToLieInside<SizeHeader>();
  ExpectAlignedBlocksToLieInside<ClassHeader, Bins<PowersOfTwo<32, 4096>, FreeList>>();
  Stack<Bump<>, Mmap> bump;
  Resource shared(bump);
  std::set<void*> seen;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(seen.insert(shared.allocate(0, 64)).second);
    EXPECT_TRUE(seen.insert(shared.allocate(1, 1)).second);
  }
}

// --- Blocks of no bytes behind a header, which must not begin where the heap below, or its block,
// ends

template <class... Layers>
void ExpectEmptyBlocksToLieInside() {
  using First = TryFirst<Stack<Layers..., StaticBuffer<256>>>;
  Stack<First, Count, Mmap> heap;
  const Counts& below = layer<Count>(heap).counts();
  void* blocks[32];
  for (void*& p : blocks) {
    const size_t before = below.allocations;
    p = heap.allocate(0);
    EXPECT_EQ(layer<First>(heap).first().owns(p), below.allocations == before);
  }
  EXPECT_LT(below.allocations, std::size(blocks)) << "the first heap gave none";
  EXPECT_GT(below.allocations, 0u) << "the first heap is not full";
  for (void* p : blocks) heap.deallocate(p, 0);
  EXPECT_EQ(below.deallocations, below.allocations) << "one went to the other heap";
}
TEST(Headers, LieInFrontOfAByteAtLeast) {
  ExpectEmptyBlocksToLieInside<Header<long>>();
  ExpectEmptyBlocksToLieInside<Header<long>, Header<char>>();
  ExpectEmptyBlocksToLieInside<SizeHeader>();
  ExpectEmptyBlocksToLieInside<Listed>();
  ExpectEmptyBlocksToLieInside<OwnedHeaps<2, ThreadIndex, Locked>, Locked>();
  ExpectEmptyBlocksToLieInside<ClassHeader, Bins<PowersOfTwo<16, 64>, FreeList>>();
  ExpectEmptyBlocksToLieInside<ClassHeader, Bins<PowersOfTwo<8, 64>, FreeList>>();
  ExpectEmptyBlocksToLieInside<ClassHeader, Bins<Steps<8, 32>, FreeList>, Bump<96, 8>>();
  ExpectEmptyBlocksToLieInside<DeferredPop, Obstack<64>>();
}

// The block that the heap below hands out next.
template <class... Small>
void ExpectNoAddressTwice() {
  Stack<SplitAt<0, Small...>, Bump<>, Mmap> heap;
  for (int i = 0; i < 10; ++i) {
    void *none = heap.allocate(0), *one = heap.allocate(1);
    EXPECT_NE(none, one);
  }
}
TEST(Headers, LeaveEachEmptyBlockAnAddressOfItsOwn) {
  ExpectNoAddressTwice<Header<long>>();
  ExpectNoAddressTwice<SizeHeader>();
  ExpectNoAddressTwice<Listed>();
  ExpectNoAddressTwice<ClassHeader, Bins<PowersOfTwo<16, 64>, FreeList>>();
}

// The byte is there in all that a header asks for.
TEST(Headers, AskForTheSameByteWheneverABlockHasNone) {
  Stack<Header<long>, Check, Coalesce<>, Mmap> heap;
  void *empty = heap.allocate(0), *shrunk = heap.allocate(100);
  EXPECT_TRUE(heap.resize(shrunk, 0));
  heap.deallocate(empty, 0);
  heap.deallocate(shrunk, 0);  // Check ends the program at a wrong size
  Stack<Fixed<24>, Header<long>, Listed, SizeHeader, FreeList, Exact> kept;
  kept.deallocate(kept.allocate(0), 0);
}

// --- ClassHeader, whose word stays where it is while a block is free

template <class... Below>
void ExpectDoubleFreeIsFound() {
  Stack<ClassHeader, Bins<PowersOfTwo<32, 4096>, FreeList>, Below..., Mmap> heap;
  void* p = heap.allocate(100);
  heap.deallocate(p);
  EXPECT_EQ(heap.size_of(p), 0u);
  EXPECT_DEATH(heap.deallocate(p), "no live block");
  EXPECT_EQ(heap.allocate(100), p);
  EXPECT_GE(heap.size_of(p), 100u);
}
TEST(ClassHeaderDeathTest, FindsADoubleFreeWhereverTheWordLies) {
  ExpectDoubleFreeIsFound<Bump<>>();
  ExpectDoubleFreeIsFound<Coalesce<>>();
  ExpectDoubleFreeIsFound<Bump<65536, 8>>();
}

// --- Apart

// Hands out again what was given back, as it is.
using Recycling = Stack<Fixed<1 << 20>, BoundedFreeList<4>, Mmap>;

TEST(Apart, ReadsZeroWhereItsSourceSaysSo) {
  Stack<Zeroed, Apart<65536, Recycling>, Coalesce<>, Mmap> heap;
  for (int round = 0; round < 2; ++round) {
    const ModelBlock b{static_cast<unsigned char*>(heap.allocate(300'000)), 300'000, 0};
    ASSERT_NE(b.p, nullptr);
    EXPECT_TRUE(Intact(b));
    memset(b.p, 0xaa, b.size);
    heap.deallocate(b.p);
  }
}

TEST(Apart, ResizesToNoImpossibleSize) {
  Stack<Apart<1024, Mmap>, Coalesce<>, Mmap> heap;
  void* p = heap.allocate(1100);
  EXPECT_TRUE(heap.resize(p, 1200));
  EXPECT_FALSE(heap.resize(p, SIZE_MAX));
  EXPECT_FALSE(heap.resize(p, SIZE_MAX - 4096));
}

// --- Heaps that have some of their memory from elsewhere

template <class... Layers>
void ExpectOwnsItsOwn() {
  Stack<Layers..., Growing<>> heap;
  void *first = heap.allocate(100), *second = heap.allocate(4000);
  EXPECT_TRUE(heap.owns(first)) << "of the buffer";
  EXPECT_TRUE(heap.owns(second));
  EXPECT_FALSE(heap.owns(&heap + 1));
}
TEST(OwningHeaps, KnowWhatTheirPartsHaveFromElsewhere) {
  using First = TryFirst<StaticBuffer<2048>>;
  ExpectOwnsItsOwn<Bins<PowersOfTwo<16, 8192>, First>>();
  ExpectOwnsItsOwn<OwnedHeaps<2, CpuIndex, Locked, First>, Locked>();
}

// --- SplitAt

TEST(SplitAt, OwnsWhatItsSmallHeapHasFromElsewhere) {
  Stack<SplitAt<256, TryFirst<StaticBuffer<4096>>>, Growing<>> heap;
  void *small = heap.allocate(100), *large = heap.allocate(1000);
  EXPECT_TRUE(heap.owns(small));
  EXPECT_TRUE(heap.owns(large));
  EXPECT_FALSE(heap.owns(&heap + 1));
}

// --- Nested over a heap that lives elsewhere

TEST(Nested, TakesArgumentsForTheHeapsBelow) {
  Stack<Count, Mmap> chunks;
  using Region = Stack<Nested, Bump<8192>, Ref<decltype(chunks)>>;
  {
    Region parent(chunks), child(&parent, chunks), alone(nullptr, chunks);
    ASSERT_NE(child.allocate(100'000), nullptr);
    parent.clear();
    EXPECT_EQ(child.parent(), &parent);
    EXPECT_EQ(chunks.counts().bytes, 0u);
    ASSERT_NE(alone.allocate(100), nullptr);
  }
  EXPECT_EQ(chunks.counts().bytes, 0u);
}

// --- PerClass

struct Plain : PerClass<Plain, Locked, FreeList, Bump<>, Mmap> {
  virtual ~Plain() = default;
  long value = 7;
};
struct WidePlain : Plain {
  alignas(64) char bytes[64];
};
struct OfAnySize : PerClass<OfAnySize, Locked, Bump<>, Mmap> {
  virtual ~OfAnySize() = default;
  long value = 7;
};
struct WideOfAnySize : OfAnySize {
  alignas(64) char bytes[64];
};
struct alignas(64) Page : PerClass<Page, Locked, FreeList, Mmap> {
  char bytes[64];
};
struct OfSource : PerClass<OfSource, Malloc> {
  char byte = 7;
};
struct Byte : PerClass<Byte, Locked, FreeList, Malloc> {
  char byte = 7;
};

template <class T>
void ExpectAligned() {
  T* made[8];
  for (T*& p : made) {
    p = &p - made < 4 ? new T : new (std::nothrow) T;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignof(T), 0u);
  }
  for (T* p : made) delete p;
}
TEST(PerClass, AlignsWhatIsDerived) {
  for (int i = 0; i < 3; ++i) {
    delete new OfAnySize;  // so that what follows lies anywhere
    ExpectAligned<WidePlain>();
    ExpectAligned<WideOfAnySize>();
  }
}
TEST(PerClass, NeedsNoMoreThanASource) {
  delete new OfSource;
  delete new Byte;  // whose list has room for a link
  auto* byte = new Byte;
  EXPECT_EQ(byte->byte, 7);
  delete byte;
}
TEST(PerClass, HasAllFormsOfNew) {
  auto* kept = new Plain;
  delete kept;
  auto* again = new (std::nothrow) Plain;
  EXPECT_EQ(again, kept);
  delete again;
  alignas(Plain) unsigned char room[sizeof(Plain)];
  auto* placed = new (room) Plain;
  EXPECT_EQ(static_cast<void*>(placed), room);
  EXPECT_EQ(placed->value, 7);
  placed->~Plain();
  auto* page = new Page;
  delete page;
  EXPECT_EQ(new Page, page) << "aligned as its heap is, so from there";
}

}  // namespace
}  // namespace strata::layers
