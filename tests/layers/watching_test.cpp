// The layers that watch others: what Check finds, what guard pages catch, what Count counts.
#include "heap_model.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/class_header.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/header.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"
#include "strata/layers/tool/fail_nth.h"
#include "strata/layers/tool/guard.h"

namespace strata::layers {
namespace {

const char* g_found = nullptr;
void Remember(const char* what, const void*) { g_found = what; }

// A heap that does what it is told to, for Check to find.
struct Rogue {
  static constexpr size_t alignment = 16;
  static constexpr bool thread_safe = false;
  void* allocate(size_t) { return answer; }
  void deallocate(void*, size_t) {}
  void* answer = nullptr;
};

TEST(Check, FindsWhatHeapsAndCallersDoWrong) {
  alignas(16) char memory[256] = {};
  Stack<Check, Rogue> heap;
  heap.set_handler(Remember);
  const auto expect = [](const char* part) {
    ASSERT_NE(g_found, nullptr) << part;
    EXPECT_NE(strstr(g_found, part), nullptr) << g_found;
    g_found = nullptr;
  };
  heap.next().answer = memory;
  ASSERT_EQ(heap.allocate(100), memory);
  EXPECT_EQ(g_found, nullptr);
  heap.next().answer = memory + 96;
  ASSERT_NE(heap.allocate(100), nullptr);
  expect("overlaps");
  heap.next().answer = memory + 200;
  ASSERT_NE(heap.allocate(8), nullptr);
  expect("aligned");
  heap.deallocate(memory, 99);
  expect("another size");
  heap.deallocate(memory, 100);
  expect("twice");
  heap.deallocate(memory + 16, 8);
  expect("never given out");
  EXPECT_EQ(static_cast<unsigned char>(memory[0]), 0xdf) << "what came back is overwritten";
}

TEST(CheckDeathTest, AbortsByDefault) {
  Stack<Check, Bump<>, Mmap> heap;
  void* p = heap.allocate(8);
  heap.deallocate(p, 8);
  EXPECT_DEATH(heap.deallocate(p, 8), "strata check: a block given back twice");
}

TEST(GuardPagesDeathTest, FaultAtThePageBehindTheBlock) {
  Stack<GuardPages, Mmap> heap;
  auto* p = static_cast<volatile char*>(heap.allocate(4096 * 2 - 16));
  p[4096 * 2 - 17] = 1;
  EXPECT_DEATH(p[4096 * 2 - 16] = 1, "");
}

// Each byte behind a block of any size faults, or is found when the block is freed.
TEST(GuardPagesDeathTest, FindWhatWasWrittenBeforeThePage) {
  for (size_t size : {8u, 9u, 100u, 4090u}) {
    for (size_t behind = size; behind < RoundUp(size, 16); ++behind) {
      Stack<GuardPages, Mmap> heap;
      auto* p = static_cast<char*>(heap.allocate(size));
      p[size - 1] = 1;
      EXPECT_DEATH(
          {
            p[behind] = 1;
            heap.deallocate(p, size);
          },
          "^strata: guard pages: the bytes behind a block were written to\n$");
      heap.deallocate(p, size);
    }
  }
}

TEST(GuardPagesDeathTest, UnalignedOnesFaultAtTheFirstByteBehind) {
  Stack<BasicGuardPages<1>, Mmap> heap;
  for (size_t size : {1u, 7u, 100u, 4095u, 4096u}) {
    auto* p = static_cast<volatile char*>(heap.allocate(size));
    p[0] = 1;
    p[size - 1] = 1;
    EXPECT_DEATH(p[size] = 1, "") << size;
    heap.deallocate(const_cast<char*>(p), size);
  }
  RunModel(heap, 500, 1, MixedSize);
}

// A free list's link is its own affair.
TEST(GuardPages, LeaveAFreeListItsLink) {
  Stack<Fixed<3>, FreeList, GuardPages, Mmap> heap;
  void* a = heap.allocate(3);
  void* b = heap.allocate(3);
  heap.deallocate(a, 3);
  heap.deallocate(b, 3);
  EXPECT_EQ(heap.allocate(3), b);
  heap.deallocate(b, 3);
}

// Kingsley's heap as docs/heaps.md has it, with Check above and within: up to the header its blocks
// lie 8 bytes behind multiples of 16.
template <class Classes>
using Kingsley = Stack<Check, ClassHeader, Bins<Classes, FreeList>, Check, Bump<65536, 8>, Mmap>;

TEST(Check, FindsNothingWrongInSkewedBlocks) {
  Kingsley<PowersOfTwo<32, 1 << 20>> powers;
  RunFullModel(powers, 6000, 1, MixedSize);
  Kingsley<Steps<16, 512>> steps;  // odd multiples of 16
  for (int round = 0; round < 20; ++round) {
    void* p[30];
    for (size_t i = 0; i < 30; ++i) ASSERT_NE(p[i] = steps.allocate(i * 16), nullptr);
    for (void* q : p) steps.deallocate(q);
  }
}

struct Skewed : Rogue {
  static constexpr size_t alignment = 8;
};

TEST(Check, FindsOverlapInSkewedBlocks) {
  alignas(16) char memory[256] = {};
  Stack<Check, Skewed> heap;
  heap.set_handler(Remember);
  heap.next().answer = memory + 8;
  ASSERT_NE(heap.allocate(16), nullptr);
  heap.next().answer = memory + 24;
  ASSERT_NE(heap.allocate(17), nullptr);
  EXPECT_EQ(g_found, nullptr) << "one behind the other";
  heap.next().answer = memory + 40;  // where the last one's last byte is
  ASSERT_NE(heap.allocate(1), nullptr);
  ASSERT_NE(g_found, nullptr);
  EXPECT_STREQ(std::exchange(g_found, nullptr), "a block that overlaps another");
}

TEST(Count, CountsBlocksBytesPeaksAndRefusals) {
  Stack<Count, FailNth, Bump<>, Mmap> heap;
  void* a = heap.allocate(10);
  void* b = heap.allocate(20);
  heap.deallocate(a, 10);
  layer<FailNth>(heap).fail_nth(1);
  EXPECT_EQ(heap.allocate(1), nullptr);
  const Counts& c = heap.counts();
  EXPECT_EQ(c.allocations, 2u);
  EXPECT_EQ(c.blocks(), 1u);
  EXPECT_EQ(c.bytes, 20u);
  EXPECT_EQ(c.peak_bytes, 30u);
  EXPECT_EQ(c.failures, 1u);
  heap.deallocate(b, 20);
}

// Frees need not name a size then, so what is counted is what can be asked at each of them.
TEST(Count, CountsWhatABlockHoldsOverAHeapThatKnowsSizes) {
  Stack<Count, Coalesce<>, Mmap> heap;
  void* a = heap.allocate(100);
  EXPECT_EQ(heap.counts().bytes, heap.size_of(a));
  EXPECT_GT(heap.counts().bytes, 100u);
  void* b = heap.allocate(100);
  heap.deallocate(a, 100);
  EXPECT_EQ(heap.counts().bytes, heap.size_of(b));
  heap.deallocate(b);
  EXPECT_EQ(heap.counts().bytes, 0u);
  Stack<Count, SizeHeader, Coalesce<>, Mmap> exact;  // it remembers what was asked
  void* c = exact.allocate(100);
  EXPECT_EQ(exact.counts().bytes, 100u);
  exact.deallocate(c);
}

}  // namespace
}  // namespace strata::layers
