// What each layer does that no other does.
#include "heap_model.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/header.h"
#include "strata/layers/combine/split.h"
#include "strata/layers/combine/try_first.h"
#include "strata/layers/combine/zeroed.h"
#include "strata/layers/per_class.h"
#include "strata/layers/source/growing.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/source/static_buffer.h"
#include "strata/layers/thread/locked.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"
#include "strata/layers/tool/fail_nth.h"
#include "strata/layers/tool/guard.h"
#include "strata/layers/tool/log.h"

namespace strata::layers {
namespace {

TEST(StaticBuffer, GivesItsBytesOnceAndTakesTheLastBack) {
  StaticBuffer<64> heap;
  void* a = heap.allocate(10);
  void* b = heap.allocate(48);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(heap.allocate(1), nullptr);
  heap.deallocate(a, 10);  // not the last: gone
  EXPECT_EQ(heap.allocate(1), nullptr);
  heap.deallocate(b, 48);
  EXPECT_EQ(heap.allocate(48), b);
  EXPECT_TRUE(heap.owns(a));
  EXPECT_FALSE(heap.owns(&heap + 1));
}

TEST(Growing, GivesOneBlockAfterTheOther) {
  Growing<1 << 20> heap;
  auto* a = static_cast<char*>(heap.allocate(4096));
  auto* b = static_cast<char*>(heap.allocate(8192));
  EXPECT_EQ(b, a + 4096);
  EXPECT_EQ(heap.allocate(1 << 20), nullptr) << "beyond what was reserved";
  b[0] = 1;
  heap.shrink(b, 8192);
  EXPECT_EQ(heap.used(), 4096u);
  EXPECT_EQ(heap.allocate(8192), b);
  EXPECT_EQ(b[0], 0) << "what was given back reads as zero";
}

TEST(Bump, IsConsecutiveAndForgetsNothingUntilClear) {
  Stack<Bump<4096>, Count, Mmap> heap;
  auto* a = static_cast<char*>(heap.allocate(20));
  auto* b = static_cast<char*>(heap.allocate(1));
  EXPECT_EQ(b, a + 32);
  heap.deallocate(b, 1);
  EXPECT_NE(heap.allocate(1), b);
  for (int i = 0; i < 1000; ++i) ASSERT_NE(heap.allocate(100), nullptr);
  EXPECT_GT(heap.held(), 100'000u);
  EXPECT_TRUE(heap.owns(a));
  heap.clear();
  EXPECT_EQ(heap.held(), 4096u) << "one chunk stays";
  EXPECT_NE(heap.allocate(100), nullptr);
  EXPECT_EQ(heap.held(), 4096u);
}

TEST(Bump, GivesLargeRequestsChunksOfTheirOwn) {
  Stack<Bump<4096>, Count, Mmap> heap;
  auto* a = static_cast<char*>(heap.allocate(16));
  void* large = heap.allocate(100'000);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(heap.allocate(16), a + 16) << "the chunk in use goes on";
  EXPECT_TRUE(heap.owns(static_cast<char*>(large) + 99'999));
}

TEST(FreeList, HandsTheNewestOutFirst) {
  Stack<Fixed<32>, FreeList, Bump<>, Mmap> heap;
  void* a = heap.allocate(32);
  void* b = heap.allocate(32);
  heap.deallocate(a, 32);
  heap.deallocate(b, 32);
  EXPECT_EQ(heap.allocate(32), b);
  EXPECT_EQ(heap.allocate(32), a);
}

// Of 48 bytes freed, none serve a request for 4096.
TEST(Fixed, RefusesWhatIsLarger) {
  Stack<Fixed<48>, FreeList, Bump<>, Mmap> heap;
  void* p = heap.allocate(7);
  heap.deallocate(p, 7);
  EXPECT_EQ(heap.allocate(4096), nullptr);
  EXPECT_EQ(heap.allocate_kept(4096), nullptr);
  EXPECT_EQ(heap.allocate(48), p);
}

TEST(Fixed, KeepsABlockAtItsSize) {
  Stack<Fixed<48>, Coalesce<>, Mmap> heap;
  void* p = heap.allocate(7);
  EXPECT_EQ(heap.size_of(p), 48u);
  EXPECT_TRUE(heap.resize(p, 48));
  EXPECT_FALSE(heap.resize(p, 49));
  EXPECT_EQ(heap.allocate(49, 64), nullptr);
  EXPECT_NE(heap.allocate(48, 64), nullptr);
  heap.deallocate(p);
  EXPECT_EQ(heap.allocate(1), p);
}

TEST(BoundedFreeList, SendsTheRestDown) {
  Stack<Fixed<64>, BoundedFreeList<2>, Count, Mmap> heap;
  void* p[4];
  for (void*& q : p) q = heap.allocate(64);
  for (void* q : p) heap.deallocate(q, 64);
  EXPECT_EQ(heap.next().kept(), 2u);
  EXPECT_EQ(layer<Count>(heap).counts().blocks(), 2u);
}

TEST(Bins, HandOutAtHandOnlyWhatTheyKeep) {
  Stack<Bins<PowersOfTwo<16, 1024>, BoundedFreeList<2>>, Count, Mmap> heap;
  static_assert(KeepingHeap<decltype(heap)> && !KeepingHeap<Stack<Bump<>, Mmap>>);
  EXPECT_EQ(heap.allocate_kept(100), nullptr);
  void* p = heap.allocate(100);
  heap.deallocate(p, 100);
  EXPECT_EQ(heap.allocate_kept(200), nullptr) << "of another class";
  EXPECT_EQ(heap.allocate_kept(5000), nullptr) << "above all classes";
  EXPECT_EQ(layer<Count>(heap).counts().allocations, 1u) << "nothing went below";
  EXPECT_EQ(heap.allocate_kept(128), p);
  EXPECT_EQ(heap.allocate_kept(128), nullptr);
  heap.deallocate(p, 128);
}

// The blocks that a list keeps go back with the size that the heap below knows them by.
TEST(Bins, GiveBackWhatTheyKeepAtTheEnd) {
  Count::On<Mmap> below;
  {
    Stack<Bins<PowersOfTwo<16, 1024>, FreeList>, Ref<Count::On<Mmap>>> heap(below);
    void* p[3] = {heap.allocate(10), heap.allocate(100), heap.allocate(1000)};
    heap.deallocate(p[0], 10);
    heap.deallocate(p[1], 100);
    heap.deallocate(p[2], 1000);
    EXPECT_EQ(below.counts().bytes, 16u + 128 + 1024);
  }
  EXPECT_EQ(below.counts().bytes, 0u);
}

TEST(Classes, CoverEverySizeTightly) {
  const auto check = [](auto classes, double slack_above_64) {
    using C = decltype(classes);
    for (size_t n = 0; n <= C::largest; ++n) {
      const size_t c = C::of(n);
      ASSERT_LT(c, size_t{C::count}) << n;
      ASSERT_GE(C::size(c), n);
      if (c > 0) {
        ASSERT_LT(C::size(c - 1), n) << n;
      }
      if (n > 64) {
        ASSERT_LE(static_cast<double>(C::size(c)), static_cast<double>(n) * slack_above_64) << n;
      }
    }
    EXPECT_EQ(C::size(C::count - 1), size_t{C::largest});
  };
  check(PowersOfTwo<16, 4096>(), 2);
  check(PowersOfTwo<2, 64>(), 2);
  check(Steps<16, 1024>(), 1.25);
  check(Geometric<8192>(), 1.25);
}

TEST(TryFirst, FallsBackAndReturnsToTheRightHeap) {
  Stack<TryFirst<StaticBuffer<128>>, Count, Mmap> heap;
  void* small = heap.allocate(128);
  void* other = heap.allocate(128);
  EXPECT_TRUE(heap.first().owns(small));
  EXPECT_EQ(layer<Count>(heap).counts().blocks(), 1u);
  heap.deallocate(other, 128);
  heap.deallocate(small, 128);
  EXPECT_EQ(layer<Count>(heap).counts().blocks(), 0u);
  EXPECT_EQ(heap.first().used(), 0u);
}

TEST(SplitAt, SendsEachSizeToItsHeapAndBack) {
  Stack<SplitAt<100, Count, Fixed<100>, FreeList>, Count, Mmap> heap;
  const Counts& small = heap.small().counts();
  const Counts& below = layer<Count>(heap.next()).counts();
  void* at = heap.allocate(100);
  void* above = heap.allocate(101);
  EXPECT_EQ(small.bytes, 100u);
  EXPECT_EQ(below.bytes, 201u) << "the small heap's memory comes from below, too";
  heap.deallocate(at, 100);
  EXPECT_EQ(small.blocks(), 0u);
  EXPECT_EQ(below.blocks(), 2u) << "its free list keeps it";
  heap.deallocate(above, 101);
  EXPECT_EQ(below.blocks(), 1u);
  EXPECT_EQ(heap.allocate(100), at);
}

TEST(SplitAt, RunsTheModelAroundTheLimit) {
  using Small = SplitAt<256, Bins<Steps<16, 256>, FreeList>, Bump<4096>>;
  Stack<Check, Small, Coalesce<65536>, Count, Mmap> heap;
  RunModel(heap, 8000, 1, [](std::mt19937& random) { return 200 + random() % 112; });
}

TEST(SizeHeader, RemembersWhatWasAsked) {
  Stack<SizeHeader, Count, Mmap> heap;
  void* p = heap.allocate(100);
  EXPECT_EQ(heap.size_of(p), 100u);
  heap.deallocate(p);
  EXPECT_EQ(layer<Count>(heap).counts().bytes, 0u);
}

TEST(Header, HoldsTheUsersRecord) {
  struct Tag {
    int owner = -1;
    short kind = 7;
  };
  Stack<Header<Tag>, Bump<>, Mmap> heap;
  void* p = heap.allocate(8);
  EXPECT_EQ(heap.header(p).owner, -1);
  heap.header(p).owner = 42;
  memset(p, 0xff, 8);
  EXPECT_EQ(heap.header(p).owner, 42);
  EXPECT_EQ(heap.header(p).kind, 7);
}

TEST(Zeroed, ReadsAsZeroWhenReused) {
  Stack<Zeroed, Fixed<64>, FreeList, Bump<>, Mmap> heap;
  auto* p = static_cast<unsigned char*>(heap.allocate(64));
  memset(p, 0xff, 64);
  heap.deallocate(p, 64);
  auto* q = static_cast<unsigned char*>(heap.allocate(64));
  ASSERT_EQ(p, q);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(q[i], 0);
}

TEST(Coalesce, PutsNeighboursTogether) {
  Stack<Coalesce<65536>, Count, Mmap> heap;
  void* p[3];
  for (void*& q : p) q = heap.allocate(1000);
  void* wall = heap.allocate(16);
  heap.deallocate(p[0]);
  heap.deallocate(p[2]);
  heap.deallocate(p[1]);  // joins both sides
  EXPECT_EQ(heap.allocate(3000), p[0]);
  heap.deallocate(wall);
}

TEST(Coalesce, TakesTheBestFitAndTheWildernessLast) {
  Stack<Coalesce<65536>, Count, Mmap> heap;
  void* large = heap.allocate(2000);
  void* wall1 = heap.allocate(16);
  void* fitting = heap.allocate(1000);
  void* wall2 = heap.allocate(16);
  heap.deallocate(large);
  heap.deallocate(fitting);
  EXPECT_EQ(heap.allocate(990), fitting);
  EXPECT_EQ(heap.allocate(990), large) << "before the wilderness";
  heap.deallocate(wall1);
  heap.deallocate(wall2);
}

TEST(Coalesce, ResizesInPlace) {
  Stack<Coalesce<65536>, Count, Mmap> heap;
  void* p = heap.allocate(100);
  void* q = heap.allocate(100);
  memset(p, 3, 100);
  EXPECT_FALSE(heap.resize(p, 300)) << "q is in the way";
  heap.deallocate(q);
  EXPECT_TRUE(heap.resize(p, 300));
  EXPECT_GE(heap.size_of(p), 300u);
  EXPECT_TRUE(heap.resize(p, 50));
  EXPECT_LT(heap.size_of(p), 100u);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(static_cast<unsigned char*>(p)[i], 3);
}

TEST(Coalesce, JoinsRegionsThatFollowEachOther) {
  Stack<Coalesce<4096>, Growing<1 << 24>> heap;
  std::vector<void*> p;
  for (int i = 0; i < 100; ++i) p.push_back(heap.allocate(1000));
  for (void* q : p) heap.deallocate(q);
  const size_t held = heap.held();
  void* all = heap.allocate(held - 4096);
  ASSERT_NE(all, nullptr);
  EXPECT_LE(heap.held(), held + 4096) << "one block over what were many regions";
  heap.deallocate(all);
}

TEST(Coalesce, GivesBackWhatIsFreeAtTheEnd) {
  Stack<Coalesce<65536>, Growing<>> growing;
  Stack<Coalesce<65536>, Count, Mmap> regions;
  std::vector<void*> p, q;
  for (int i = 0; i < 1000; ++i) {
    p.push_back(growing.allocate(10'000));
    q.push_back(regions.allocate(10'000));
  }
  EXPECT_GT(growing.held(), 10'000'000u);
  for (void* b : p) growing.deallocate(b);
  for (void* b : q) regions.deallocate(b);
  EXPECT_LE(growing.held(), 5u * 65536);
  EXPECT_EQ(growing.held(), growing.next().used());
  EXPECT_LE(regions.held(), 2u * 65536) << "all but the newest";
  EXPECT_EQ(layer<Count>(regions).counts().bytes, regions.held());
}

TEST(FailNth, FailsThatRequest) {
  Stack<FailNth, Bump<>, Mmap> heap;
  heap.fail_nth(2);
  EXPECT_NE(heap.allocate(1), nullptr);
  EXPECT_EQ(heap.allocate(1), nullptr);
  EXPECT_NE(heap.allocate(1), nullptr);
  heap.fail_each(1);
  EXPECT_EQ(heap.allocate(1), nullptr);
  EXPECT_EQ(heap.allocate(1), nullptr);
  EXPECT_EQ(heap.failed(), 3u);
}

// Every request to the source fails in turn; the heap answers null, loses nothing and goes on.
template <class... Layers>
void SurviveFailures() {
  for (size_t n = 1; n <= 12; ++n) {
    Stack<Check, Layers..., FailNth, Count, Mmap> heap;
    layer<FailNth>(heap).fail_nth(n);
    std::vector<ModelBlock> live;
    for (int i = 0; i < 300; ++i) {
      ModelBlock b{nullptr, static_cast<size_t>(i * 37 % 5000), static_cast<unsigned char>(i)};
      b.p = static_cast<unsigned char*>(heap.allocate(b.size));
      if (b.p == nullptr) continue;
      Fill(b);
      live.push_back(b);
    }
    EXPECT_GE(live.size(), 299u - layer<FailNth>(heap).failed());
    for (const ModelBlock& b : live) {
      ASSERT_TRUE(Intact(b));
      heap.deallocate(b.p, b.size);
    }
  }
}

TEST(FailNth, IsSurvivedByTheOthers) {
  SurviveFailures<Bump<4096>>();
  SurviveFailures<Bins<PowersOfTwo<16, 8192>, FreeList>, Bump<4096>>();
  SurviveFailures<Coalesce<4096>>();
  SurviveFailures<SizeHeader, Bins<Steps<16, 1024>, FreeList>, Bump<4096>>();
  SurviveFailures<GuardPages>();
}

TEST(Log, TellsOfEachCall) {
  std::vector<std::pair<HeapCall, size_t>> seen;
  Stack<Log, Bump<>, Mmap> heap;
  heap.set_log([](void* context, HeapCall call, const void*,
                  size_t size) { static_cast<decltype(seen)*>(context)->push_back({call, size}); },
               &seen);
  void* p = heap.allocate(5);
  heap.deallocate(p, 5);
  heap.clear();
  const decltype(seen) expected{
      {HeapCall::kAllocate, 5}, {HeapCall::kDeallocate, 5}, {HeapCall::kClear, 0}};
  EXPECT_EQ(seen, expected);
}

struct Node : PerClass<Node, Locked, FreeList, Bump<>, Mmap> {
  Node* left = nullptr;
  long value = 0;
};

struct LargeNode : Node {
  char more[4000];
};

TEST(PerClass, TakesObjectsOfOneClassFromOneHeap) {
  Node* a = new Node;
  delete a;
  Node* b = new Node;
  EXPECT_EQ(a, b);
  delete b;
  // Its list is of another size.
  auto* large = new LargeNode;
  EXPECT_NE(static_cast<void*>(large), b);
  memset(large->more, 1, sizeof large->more);
  delete large;
  EXPECT_EQ(new Node, b);
}

}  // namespace
}  // namespace strata::layers
