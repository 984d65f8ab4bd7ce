// Obstacks: objects that grow, and those that go back newest first.
#include "strata/layers/combine/obstack.h"

#include <string>

#include "heap_model.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"
#include "strata/layers/tool/fail_nth.h"

namespace strata::layers {
namespace {

using Heap = Stack<Obstack<1024>, Count, Mmap>;

size_t Chunks(Heap& heap) { return layer<Count>(heap).counts().blocks(); }

TEST(Obstack, GrowsAnObjectAcrossChunks) {
  Heap heap;
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    const char c = static_cast<char>('a' + i % 26);
    text += c;
    ASSERT_TRUE(heap.grow(c));
    ASSERT_EQ(heap.object_size(), text.size());
  }
  const size_t size = heap.object_size();
  const char* whole = static_cast<char*>(heap.finish());
  EXPECT_EQ(std::string(whole, size), text);
  EXPECT_EQ(heap.object_size(), 0u);
  void* next = heap.allocate(10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(next) % 16, 0u);
  EXPECT_EQ(std::string(whole, size), text);
}

// What is freed while another object grows behind it stays: the growing one begins where it ends.
TEST(Obstack, FreesNothingUnderAGrowingObject) {
  Heap heap;
  void* before = heap.allocate(48);
  ASSERT_TRUE(heap.grow("growing", 7));
  void* base = heap.base();
  heap.deallocate(before, 48);
  EXPECT_EQ(heap.base(), base);
  EXPECT_EQ(heap.object_size(), 7u);
  EXPECT_EQ(std::string(static_cast<char*>(heap.finish()), 7), "growing");
}

TEST(Obstack, ReleasesAnObjectAndAllAfterIt) {
  Heap heap;
  void* kept = heap.allocate(100);
  void* first = heap.allocate(100);
  for (int i = 0; i < 100; ++i) ASSERT_NE(heap.allocate(300), nullptr);
  EXPECT_GT(Chunks(heap), 20u);
  heap.release(first);
  EXPECT_EQ(Chunks(heap), 1u);
  EXPECT_EQ(heap.allocate(50), first);
  heap.release(kept);
  EXPECT_EQ(heap.allocate(1), kept);
}

TEST(Obstack, ComesBackToAMark) {
  Heap heap;
  void* beginning = heap.mark();
  void* a = heap.allocate(40);
  memset(a, 7, 40);
  void* mark = heap.mark();
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 50; ++i) ASSERT_NE(heap.allocate(200), nullptr);
    ASSERT_TRUE(heap.grow("unfinished", 10));
    heap.release_to(mark);
    EXPECT_EQ(heap.mark(), mark);
    EXPECT_EQ(heap.object_size(), 0u);
  }
  EXPECT_EQ(static_cast<char*>(a)[39], 7);
  heap.release_to(beginning);
  EXPECT_EQ(Chunks(heap), 0u);
}

// A mark at the very end of a chunk belongs to that chunk, also when the next one follows it.
TEST(Obstack, MarksAFullChunk) {
  Heap heap;
  void* first = heap.allocate(16);
  const size_t left = 1024 - 16 - 16;
  void* rest = heap.allocate(left);
  ASSERT_EQ(Chunks(heap), 1u);
  void* mark = heap.mark();
  ASSERT_NE(heap.allocate(16), nullptr);
  ASSERT_EQ(Chunks(heap), 2u);
  heap.release_to(mark);
  EXPECT_EQ(Chunks(heap), 1u);
  EXPECT_TRUE(heap.owns(first) && heap.owns(rest));
}

TEST(Obstack, TakesTheNewestBack) {
  Heap heap;
  void* a = heap.allocate(30);
  void* b = heap.allocate(30);
  heap.deallocate(a, 30);  // not the newest: stays
  EXPECT_NE(heap.allocate(30), a);
  heap.clear();
  a = heap.allocate(30);
  b = heap.allocate(30);
  heap.deallocate(b, 30);
  EXPECT_EQ(heap.allocate(20), b);
}

TEST(Obstack, TakesLargeObjectsAndRefusesEnormousOnes) {
  Heap heap;
  auto* large = static_cast<char*>(heap.allocate(100'000));
  memset(large, 1, 100'000);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.allocate(kMaxRequest), nullptr);
  EXPECT_FALSE(heap.blank(kMaxRequest));
  EXPECT_NE(heap.allocate(1), nullptr);
}

TEST(Obstack, KeepsAnObjectThatCanNotGrow) {
  Stack<Obstack<1024>, FailNth, Mmap> heap;
  ASSERT_TRUE(heap.grow("begun", 5));
  layer<FailNth>(heap).fail_nth(1);
  char more[2000] = {};
  EXPECT_FALSE(heap.grow(more, sizeof(more)));
  EXPECT_EQ(heap.object_size(), 5u);
  EXPECT_EQ(memcmp(heap.base(), "begun", 5), 0);
  EXPECT_TRUE(heap.grow(more, sizeof(more)));
  EXPECT_EQ(memcmp(heap.finish(), "begun", 5), 0);
}

TEST(ObstackDeathTest, FindsMisuse) {
  Heap heap;
  ASSERT_NE(heap.allocate(10), nullptr);
  int elsewhere = 0;
  EXPECT_DEATH(heap.release(&elsewhere), "^strata: obstack: release of a pointer");
  ASSERT_TRUE(heap.grow('x'));
  EXPECT_DEATH(heap.allocate(10), "^strata: obstack: an object was begun");
}

TEST(Obstack, RunsTheModelUnderCheck) {
  Stack<Check, Obstack<4096>, Mmap> heap;
  RunModel(heap, 4000, 5, MixedSize);
}

}  // namespace
}  // namespace strata::layers
