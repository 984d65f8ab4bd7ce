// The page heap as a source of layers, on the real kernel: alignment, what is in use, and that what
// a heap gives back goes back to the system without anybody's help.
#include "heaps/page_heap_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "heaps/hoard.h"

namespace strata {
namespace {

constexpr size_t kUnit = ProcessHoard::superblock;

// A process has one window for a page heap on the real kernel, so all tests share one heap.
HoardHeap& TheHeap() {
  static HoardHeap heap;
  return heap;
}

TEST(PageHeapSource, GivesAlignedRunsOfAnySize) {
  auto& source = TheHeap().next().next();
  std::vector<std::pair<char*, size_t>> runs;
  const size_t before = source.in_use();
  size_t sum = 0;
  for (size_t size = 1; size <= (size_t{8} << 20); size = size * 3 + 1000) {
    auto* p = static_cast<char*>(source.allocate(size));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kUnit, 0u) << size;
    memset(p, static_cast<int>(runs.size()), size);
    runs.emplace_back(p, size);
    sum += BytesOf(PagesCeil(size));
  }
  EXPECT_EQ(source.in_use(), before + sum);
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].first[0], static_cast<char>(i));
    EXPECT_EQ(runs[i].first[runs[i].second - 1], static_cast<char>(i));
    source.deallocate(runs[i].first, runs[i].second);
  }
  EXPECT_EQ(source.in_use(), before);
  EXPECT_EQ(source.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(source.allocate(layers::kMaxRequest), nullptr);
}

TEST(PageHeapSource, KeepsABoundedPartOfWhatIsFree) {
  auto& source = TheHeap().next().next();
  constexpr size_t kRuns = (size_t{250} << 20) / kUnit;
  std::vector<void*> runs;
  for (size_t i = 0; i < kRuns; ++i) {
    runs.push_back(source.allocate(kUnit));
    ASSERT_NE(runs.back(), nullptr);
  }
  while (!runs.empty()) {
    source.deallocate(runs.back(), kUnit);
    runs.pop_back();
    ASSERT_LE(source.free_backed(), source.in_use() / 4 + (16 << 20) + kHugePageSize);
  }
}

// A program that takes and frees all the time would else have each page mapped and zeroed anew. One
// that then rests keeps a bounded part, until its first free after a second.
TEST(PageHeapSource, KeepsMoreOfWhatSwingsButNoMoreThanSome) {
  auto& source = TheHeap().next().next();
  constexpr size_t kRun = 8 << 20, kRuns = 32, kMore = 128 << 20;
  const auto beyond = [&] {
    const size_t most = source.in_use() / 4 + (16 << 20) + kHugePageSize;
    return source.free_backed() - std::min(source.free_backed(), most);
  };
  size_t most_kept = 0;
  for (int i = 0; i < 100; ++i) {
    void* runs[kRuns];
    for (void*& p : runs) p = source.allocate(kRun);
    for (void* p : runs) {
      source.deallocate(p, kRun);
      most_kept = std::max(most_kept, beyond());
      ASSERT_LE(beyond(), kMore);
    }
  }
  EXPECT_GE(most_kept, kMore / 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  source.deallocate(source.allocate(kUnit), kUnit);
  EXPECT_EQ(beyond(), 0u);
  // A burst that lasted longer than a second leaves nothing behind.
  void* runs[kRuns];
  for (void*& p : runs) p = source.allocate(kRun);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  for (void* p : runs) source.deallocate(p, kRun);
  EXPECT_EQ(beyond(), 0u);
}

TEST(HoardHeapDeathTest, SaysSoOfPointersToNoMemory) {
  HoardHeap& heap = TheHeap();
  heap.deallocate(heap.allocate(10));
  auto& source = heap.next().next();
  EXPECT_TRUE(source.owns(heap.allocate(10)));
  EXPECT_FALSE(source.owns(&source));
  const char* never = "^strata hoard: freed twice, or never a block";
  EXPECT_DEATH(heap.deallocate(reinterpret_cast<void*>(0x1000)), never);
  EXPECT_DEATH(heap.deallocate(reinterpret_cast<void*>(uintptr_t{1} << 62)), never);
  EXPECT_DEATH(heap.deallocate(&heap), never);
}

TEST(HoardHeap, ServesABurstAndGivesItBack) {
  HoardHeap& heap = TheHeap();
  std::vector<void*> blocks;
  for (size_t i = 0; i < 400'000; ++i) {
    blocks.push_back(heap.allocate(100 + i % 500));
    ASSERT_NE(blocks.back(), nullptr);
    memset(blocks.back(), 1, 100);
  }
  for (void* p : blocks) heap.deallocate(p);
  heap.flush();
  auto& source = heap.next().next();
  // K superblocks a class and CPU that was used, and the spares; nothing else.
  EXPECT_LT(source.in_use(), size_t{20} << 20);
  EXPECT_LT(source.free_backed(), size_t{32} << 20);
}

}  // namespace
}  // namespace strata
