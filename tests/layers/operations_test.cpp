// What each layer keeps of what the heap below can do beyond allocate and deallocate, as a table
// that the compiler checks: a layer spliced in anywhere must hide nothing that it could pass on,
// and must not pass on what would be wrong through it. test_docs.py sees that no layer is missing.
#include <gtest/gtest.h>

#include "strata/layers.h"

namespace strata::layers {
namespace {

// A heap that can do nothing but its duty, for every layer's taste.
struct Bare {
  static constexpr size_t alignment = 65536;
  static constexpr bool thread_safe = true;
  void* allocate(size_t) { return nullptr; }
  void deallocate(void*, size_t) {}
};

// One that can do all there is, and says what reached it.
struct Able {
  static constexpr size_t alignment = 65536;
  static constexpr bool thread_safe = true;
  static constexpr bool boundary_tags = true;
  void* allocate(size_t) { return nullptr; }
  void* allocate(size_t, size_t) { return nullptr; }
  void* allocate_kept(size_t) { return nullptr; }
  void deallocate(void*) {}
  void deallocate(void*, size_t) {}
  size_t size_of(void*) { return 0; }
  bool resize(void*, size_t) { return false; }
  void* remap(void*, size_t) { return nullptr; }
  bool reads_zero(void*) { return false; }
  bool owns(const void*) const { return false; }
  void clear() { ++cleared; }
  void forget() { ++forgotten; }
  template <class F>
  void visit_locks(F&& f) {
    f(lock);
  }
  FutexLock lock;
  int cleared = 0;
  int forgotten = 0;
};

enum Operations : unsigned {
  kNothing = 0,
  kAlign = 1,
  kSize = 2,
  kResize = 4,
  kRemap = 8,
  kZero = 16,
  kClear = 32,
  kOwn = 64,
  kAll = 127,
  kKeep = 128,  // apart from the others: a layer that looks at each call must not let it through
};
constexpr Operations operator|(Operations a, Operations b) {
  return static_cast<Operations>(unsigned{a} | unsigned{b});
}
constexpr Operations Without(Operations all, Operations some) {
  return static_cast<Operations>(all & ~unsigned{some});
}

template <class H>
constexpr Operations OfHeap() {
  static_assert(Heap<H>);
  static_assert(
      SizedHeap<H> || !requires(H& h, void* p) { h.size_of(p); },
      "size_of goes through a layer that has no deallocate(p)");
  return (AlignedHeap<H> ? kAlign : kNothing) | (SizedHeap<H> ? kSize : kNothing) |
         (ResizableHeap<H> ? kResize : kNothing) | (RemappingHeap<H> ? kRemap : kNothing) |
         (ZeroKnowingHeap<H> ? kZero : kNothing) | (ClearableHeap<H> ? kClear : kNothing) |
         (OwningHeap<H> ? kOwn : kNothing) | (KeepingHeap<H> ? kKeep : kNothing);
}
// Over a heap that can do all, and over one that can do nothing more than its duty.
// Not by Stack, for some layers stand below others only.
template <class... Layers>
constexpr Operations kKept = OfHeap<typename internal::StackOf<Layers..., Able>::type>();
template <class... Layers>
constexpr Operations kOwnOnes = OfHeap<typename internal::StackOf<Layers..., Bare>::type>();

// The tools hide nothing and add nothing.
static_assert(kKept<Count> == kAll && kOwnOnes<Count> == kNothing);
static_assert(kKept<Log> == kAll && kOwnOnes<Log> == kNothing);
static_assert(kKept<Trace> == kAll && kOwnOnes<Trace> == kNothing);
static_assert(kKept<Profile> == kAll && kOwnOnes<Profile> == kNothing);
static_assert(kKept<Check> == kAll && kOwnOnes<Check> == kNothing);
static_assert(kKept<FailNth> == kAll && kOwnOnes<FailNth> == kNothing);
// A block ends where its pages end, so its size must be told; a page kept from being touched must
// not be reused before it is freed.
static_assert(kKept<GuardPages> == kOwn && kOwnOnes<GuardPages> == kNothing);
static_assert(kKept<BasicGuardPages<1>> == kOwn);

// Locks.
static_assert(kKept<Locked> == kAll && kOwnOnes<Locked> == kNothing);
static_assert(kKept<LockedBy<FutexLock>> == kAll);
static_assert(kKept<LockedWhenShared> == (kAll | kKeep) && kOwnOnes<LockedWhenShared> == kNothing);

// Layers that hand out the blocks of the heap below as they are.
static_assert(kKept<Zeroed> == kAll && kOwnOnes<Zeroed> == kZero);
static_assert(kKept<Nested> == kAll);
static_assert(kKept<Capped<>> == kAll && kOwnOnes<Capped<>> == kNothing);
using Bins64 = Bins<Steps<16, 64>, FreeList>;
static_assert(kKept<Bins64> == (kAll | kKeep) && kOwnOnes<Bins64> == kKeep);
using First = TryFirst<StaticBuffer<64>>;
static_assert(kKept<First> == (kAlign | kZero | kClear | kOwn) && kOwnOnes<First> == kNothing);
static_assert(kKept<TryFirst<Able>> == kAll && kOwnOnes<TryFirst<Able>> == kNothing);
// Its mappings are on no list, so they can't be taken back at once.
using Apart4 = Apart<4096, Mmap>;
static_assert(kKept<Apart4> == Without(kAll, kClear | kOwn));
static_assert(kKept<Apart<4096, Able>> == Without(kAll, kClear));

// Blocks of one size stay of that size.
static_assert(kKept<Fixed<64>> == (Without(kAll, kRemap) | kKeep));
static_assert(kOwnOnes<Fixed<64>> == kNothing);
static_assert(kKept<FreeList> == (kClear | kOwn | kKeep) && kOwnOnes<FreeList> == kKeep);
static_assert(kKept<BoundedFreeList<4>> == (kClear | kOwn | kKeep));
static_assert(kKept<Inbox> == (kSize | kClear | kOwn) && kOwnOnes<Inbox> == kNothing);

// Layers that cut what comes from below.
static_assert(kKept<Bump<>> == (kClear | kOwn) && kOwnOnes<Bump<>> == (kClear | kOwn));
static_assert(kKept<Obstack<>> == (kClear | kOwn) && kOwnOnes<Obstack<>> == (kClear | kOwn));
static_assert(kKept<DeferredPop, Obstack<>> == (kAlign | kSize | kResize | kClear | kOwn));
constexpr Operations kGeneral = kAlign | kSize | kResize | kClear;
static_assert(kKept<Coalesce<>> == (kGeneral | kOwn) && kOwnOnes<Coalesce<>> == kGeneral);
static_assert(kKept<Reap<>> == (kGeneral | kZero | kOwn) && kOwnOnes<Reap<>> == kGeneral);
static_assert(RemappingHeap<Stack<Reap<>, Mmap>> && !RemappingHeap<Stack<Reap<>, Growing<>>>);
static_assert(kKept<OnlyLive, Reap<>> == kKept<Reap<>>);
static_assert(kKept<SplitAt<64, Fixed<64>, FreeList>> == (kClear | kOwn));
static_assert(kKept<SplitAt<64, Coalesce<>>> == (kAlign | kClear | kOwn));

// Headers: what is known of the block below is known of the caller's, but an alignment is not.
static_assert(kKept<Header<long>> == Without(kAll, kAlign) && kOwnOnes<Header<long>> == kNothing);
static_assert(kKept<SizeHeader> == (kAlign | kSize | kClear | kOwn));
static_assert(kOwnOnes<SizeHeader> == (kAlign | kSize));
static_assert(kKept<ClassHeader, Bins64> == (kAlign | kSize | kClear | kOwn | kKeep));
static_assert(kOwnOnes<ClassHeader, Bins64> == (kAlign | kSize | kKeep));
static_assert(kKept<Listed> == (kSize | kClear | kOwn));
static_assert(kOwnOnes<Listed> == (kSize | kClear));

// Heaps for threads. What the threads of a Hoard keep can't be taken back at once.
using Private2 = PrivateHeaps<2, CpuIndex, Locked, FreeList>;
static_assert(kKept<Private2> == (kClear | kOwn) && kOwnOnes<Private2> == kNothing);
using Owned2 = OwnedHeaps<2, CpuIndex, Locked, Coalesce<>>;
static_assert(kKept<Owned2> == (kClear | kOwn) && kOwnOnes<Owned2> == kNothing);
static_assert(kKept<Hoard<>> == (kAlign | kSize | kOwn) && kOwnOnes<Hoard<>> == (kAlign | kSize));
static_assert(kKept<ThreadBuffers<>, Hoard<>> == (kAlign | kSize | kOwn));

// Sources.
static_assert(OfHeap<Mmap>() == kZero && OfHeap<AlignedMmap<65536>>() == kNothing);
static_assert(OfHeap<Growing<>>() == kOwn && OfHeap<Sbrk>() == kNothing);
static_assert(OfHeap<Malloc>() == (kAlign | kSize | kRemap) && OfHeap<Upstream>() == kNothing);
static_assert(OfHeap<StaticBuffer<64>>() == (kClear | kOwn));
// A reference's clear() would be the end of the others' blocks too.
static_assert(OfHeap<Ref<Able>>() == Without(kAll, kClear) && OfHeap<Ref<Bare>>() == kNothing);

// Every stack: locks are found through it, and forget() and clear() come through to the memory.
template <class... Layers>
struct Of {
  using Heap = typename internal::StackOf<Layers..., Able>::type;
};

template <class H>
Able& Bottom(H& heap) {
  if constexpr (std::same_as<H, Able>) {
    return heap;
  } else {
    return Bottom(heap.next());
  }
}

template <class T>
class EveryLayer : public testing::Test {};
using Rows = testing::Types<
    Of<Count>, Of<Log>, Of<Trace>, Of<Profile>, Of<Check>, Of<FailNth>, Of<GuardPages>, Of<Locked>,
    Of<LockedWhenShared>, Of<Zeroed>, Of<Capped<>>, Of<Nested>, Of<Bins64>, Of<First>, Of<Apart4>,
    Of<Fixed<64>>, Of<FreeList>, Of<BoundedFreeList<4>>, Of<Inbox>, Of<Bump<>>, Of<Obstack<>>,
    Of<DeferredPop, Obstack<>>, Of<OnlyLive, Reap<>>, Of<Coalesce<>>, Of<Reap<>>,
    Of<SplitAt<64, Fixed<64>, FreeList>>, Of<Header<long>>, Of<SizeHeader>, Of<ClassHeader, Bins64>,
    Of<Listed>, Of<Private2>, Of<PrivateHeaps<2, ThreadIndex, FreeList>>, Of<Owned2>, Of<Hoard<>>,
    Of<ThreadBuffers<>, Hoard<>>>;
TYPED_TEST_SUITE(EveryLayer, Rows);

TYPED_TEST(EveryLayer, LetsLocksAndTheEndThrough) {
  typename TypeParam::Heap heap;
  Able& below = Bottom(heap);
  bool found = false;
  heap.visit_locks([&](auto& lock) {
    EXPECT_FALSE(found) << "the lock below is the last";
    if constexpr (std::same_as<decltype(lock), FutexLock&>) found = &lock == &below.lock;
  });
  EXPECT_TRUE(found);
  heap.forget();
  EXPECT_EQ(below.forgotten, 1);
}

}  // namespace
}  // namespace strata::layers
