// The tiers put together over a fake kernel that refuses memory at each call in turn: what the heap
// then answers, and that all is there again once the kernel is willing.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <utility>

#include "../hugepage/test_arena.h"
#include "heaps/strata.h"
#include "test_kernel.h"

namespace strata::test {
namespace {

using Heap = StrataHeap<TestKernel>;

void NoBadFree(BadFree, void* p) { ADD_FAILURE() << "a bad free of " << p; }

// What a program asks for and gets while the kernel may refuse.
struct Demand {
  std::map<void*, std::pair<SizeClass, size_t>> live;  // class and bytes
  bool refused = false;
};

void RunDemand(Heap& heap, TestKernel& kernel, Demand& d) {
  std::mt19937 random(8);
  for (int i = 0; i < 300; ++i) {
    void* p = nullptr;
    SizeClass c = SizeClass::kNone;
    size_t bytes = 1 + random() % 200'000;
    if (random() % 4 == 0) {
      bytes = 262'145 + random() % (3 << 20);
      p = heap.large().Take(bytes, 16).address;
    } else {
      c = ClassOfSize(bytes);
      if (heap.transfer().Take(c, &p, 1) == 0) p = nullptr;
    }
    if (p == nullptr) {
      d.refused = true;
      continue;
    }
    ASSERT_TRUE(d.live.try_emplace(p, c, bytes).second);
    kernel.Touch(p, 1, static_cast<uint32_t>(bytes));
  }
}

void FreeAll(Heap& heap, TestKernel& kernel, Demand& d) {
  for (const auto& [p, block] : d.live) {
    ASSERT_TRUE(block.first != SizeClass::kNone ||
                kernel.Holds(p, 1, static_cast<uint32_t>(block.second)));
    void* object = p;
    if (block.first == SizeClass::kNone) {
      heap.large().Give(heap.large().At(p));
    } else {
      heap.transfer().Give(block.first, &object, 1);
    }
  }
  d.live.clear();
}

// Runs the demand with the kernel as `refuse` made it, then again with a willing one. Returns
// whether anything was refused.
template <class Refuse>
bool RefusedAndRecovered(Refuse refuse) {
  TestArena memory;
  TestKernel kernel{HugePages(512)};
  auto heap = std::make_unique<Heap>(kernel, memory.arena(), PageHeapOptions{}, NoBadFree);
  Demand d;
  refuse(kernel);
  RunDemand(*heap, kernel, d);
  FreeAll(*heap, kernel, d);
  heap->ReleaseNow(SIZE_MAX);
  EXPECT_EQ(heap->page_heap().used(), Pages(0));
  EXPECT_EQ(kernel.physical_bytes(), 0u);
  kernel.fail_map_in = -1;
  kernel.map_limit = HugePages(512);
  Demand again;
  RunDemand(*heap, kernel, again);
  EXPECT_FALSE(again.refused);
  FreeAll(*heap, kernel, again);
  heap->ReleaseNow(SIZE_MAX);
  EXPECT_EQ(heap->page_heap().used(), Pages(0));
  return d.refused;
}

// One refusal is not the end: the heap asks for less.
TEST(StrataHeapOom, EachMapCallRefusedOnce) {
  for (int nth = 0; nth < 12; ++nth) {
    SCOPED_TRACE(nth);
    EXPECT_EQ(RefusedAndRecovered([&](TestKernel& k) { k.fail_map_in = nth; }), false);
  }
}

TEST(StrataHeapOom, EveryMapCallRefusedFromSomePointOn) {
  size_t refused = 0;
  size_t limit = 0;
  for (bool enough = false; !enough; ++limit) {
    SCOPED_TRACE(limit);
    ASSERT_LT(limit, 513u);
    enough = !RefusedAndRecovered([&](TestKernel& k) { k.map_limit = HugePages(limit); });
    refused += !enough;
  }
  EXPECT_GT(refused, 20u);
}

TEST(StrataHeapOom, ALimitReachedIsNullAndThenRecovery) {
  TestArena memory;
  TestKernel kernel{HugePages(512)};
  auto heap = std::make_unique<Heap>(kernel, memory.arena(), PageHeapOptions{}, NoBadFree);
  kernel.map_limit = HugePages(30);
  for (int round = 0; round < 5; ++round) {
    Demand d;
    RunDemand(*heap, kernel, d);
    EXPECT_TRUE(d.refused);
    EXPECT_GT(d.live.size(), 30u);
    FreeAll(*heap, kernel, d);
    heap->ReleaseNow(SIZE_MAX);
    ASSERT_EQ(heap->page_heap().used(), Pages(0));
  }
}

TEST(StrataHeapOom, MetadataRefusedIsNullAndThenRecovery) {
  TestArena memory;
  TestKernel kernel{HugePages(512)};
  auto heap = std::make_unique<Heap>(kernel, memory.arena(), PageHeapOptions{}, NoBadFree);
  memory.fail = true;
  EXPECT_EQ(heap->large().Take(1 << 20, 16).address, nullptr);
  void* p = nullptr;
  EXPECT_EQ(heap->central().Take(ClassOfSize(64), &p, 1), 0u);
  EXPECT_EQ(heap->page_heap().used(), Pages(0));
  memory.fail = false;
  Demand d;
  RunDemand(*heap, kernel, d);
  EXPECT_FALSE(d.refused);
  FreeAll(*heap, kernel, d);
}

}  // namespace
}  // namespace strata::test
