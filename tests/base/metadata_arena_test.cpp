// MetadataArena and RecordPool: alignment, zeroing, no overlap, accounting, and a kernel that says
// no.
#include "base/metadata_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../hugepage/test_arena.h"

namespace strata {
namespace {

using test::TestArena;

bool AllZero(const void* p, size_t n) {
  const auto* bytes = static_cast<const unsigned char*>(p);
  for (size_t i = 0; i < n; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

TEST(MetadataArena, PiecesAreAlignedZeroAndApart) {
  TestArena memory;
  MetadataArena& arena = memory.arena();
  std::mt19937 random(3);
  std::map<uintptr_t, size_t> taken;
  size_t asked = 0;
  for (int i = 0; i < 2000; ++i) {
    const size_t align = size_t{8} << random() % 10;  // to 4 KiB
    // Mostly records, at times a large array, at times as much as a whole chunk.
    size_t bytes = 1 + random() % 500;
    if (i % 100 == 0) bytes = 60'000 + random() % 300'000;
    if (i % 500 == 7) bytes = (256 << 10) - align;
    void* p = arena.Allocate(bytes, align);
    ASSERT_NE(p, nullptr);
    const auto at = reinterpret_cast<uintptr_t>(p);
    EXPECT_EQ(at % align, 0u);
    ASSERT_TRUE(AllZero(p, bytes));
    memset(p, 0xee, bytes);
    const auto next = taken.lower_bound(at);
    EXPECT_TRUE(next == taken.end() || at + bytes <= next->first);
    EXPECT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= at);
    taken[at] = bytes;
    asked += bytes;
    EXPECT_EQ(arena.used_bytes(), asked);
    EXPECT_LE(arena.used_bytes(), arena.mapped_bytes());
  }
}

TEST(MetadataArena, ALargeRecordLeavesTheCurrentChunkInUse) {
  TestArena memory;
  MetadataArena& arena = memory.arena();
  const auto first = reinterpret_cast<uintptr_t>(arena.Allocate(64));
  ASSERT_NE(arena.Allocate(300'000), nullptr);
  const auto second = reinterpret_cast<uintptr_t>(arena.Allocate(64));
  EXPECT_EQ(second, first + 64);
  EXPECT_EQ(arena.mapped_bytes(), (256u << 10) + RoundUp(300'016, 4096));
}

TEST(MetadataArena, ARefusalIsNullAndCostsNothing) {
  TestArena memory;
  MetadataArena& arena = memory.arena();
  memory.fail = true;
  EXPECT_EQ(arena.Allocate(16), nullptr);
  EXPECT_EQ(arena.New<uint64_t>(), nullptr);
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_EQ(arena.mapped_bytes(), 0u);
  memory.fail = false;
  ASSERT_NE(arena.Allocate(16), nullptr);
  memory.fail = true;
  EXPECT_NE(arena.Allocate(16), nullptr);  // the chunk still has room
  EXPECT_EQ(arena.Allocate(1 << 20), nullptr);
  EXPECT_EQ(arena.used_bytes(), 32u);
  EXPECT_EQ(arena.mapped_bytes(), 256u << 10);
}

TEST(MetadataArena, EnsuredRecordsNeedNothingMoreFromTheKernel) {
  TestArena memory;
  MetadataArena& arena = memory.arena();
  ASSERT_NE(arena.Allocate(96, 16, MetadataUse::kHeap), nullptr);
  constexpr size_t kTotal = 3 << 20;
  ASSERT_TRUE(arena.EnsureHeapTotal(kTotal));
  const size_t mapped = arena.mapped_bytes();
  EXPECT_LE(mapped, kTotal + (512 << 10));
  memory.fail = true;
  EXPECT_TRUE(arena.EnsureHeapTotal(kTotal));  // has it already
  for (size_t made = 96; made + 96 <= kTotal; made += 96)
    ASSERT_NE(arena.Allocate(96, 16, MetadataUse::kHeap), nullptr);
  EXPECT_EQ(arena.mapped_bytes(), mapped);
  EXPECT_FALSE(arena.EnsureHeapTotal(kTotal * 2));
  memory.fail = false;
  EXPECT_TRUE(arena.EnsureHeapTotal(kTotal * 2));
}

// Each growth is a piece, with an end for which the next record is too long.
TEST(MetadataArena, APromiseHoldsOverManyPieces) {
  TestArena memory;
  MetadataArena& arena = memory.arena();
  size_t total = 0;
  const auto grow = [&](size_t by) { return arena.EnsureHeapTotal(total += by); };
  for (const size_t first : {252 << 10, 256 << 10}) {  // so that nothing is to spare by chance
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(grow(i == 0 ? first : 256 << 10));
  }
  memory.fail = true;
  for (size_t made = 0; made + 230 <= total; made += 230)
    ASSERT_NE(arena.Allocate(230, 2, MetadataUse::kHeap), nullptr) << total - made;
}

TEST(MetadataArena, WhatTheHeapIsPromisedServesNobodyElse) {
  TestArena memory;
  MetadataArena& arena = memory.arena();
  ASSERT_TRUE(arena.EnsureHeapTotal(1 << 20));
  for (int i = 0; i < 3000; ++i) ASSERT_NE(arena.Allocate(1000), nullptr);
  memory.fail = true;
  while (arena.Allocate(1000) != nullptr) {
  }
  // 170 B: the ends of pieces are too short for a record now and then.
  for (size_t made = 0; made + 180 <= 1 << 20; made += 180)
    ASSERT_NE(arena.Allocate(170, 8, MetadataUse::kHeap), nullptr) << made;
}

// Memory at odd pages, of which the test knows where it begins and ends.
struct OddPages {
  static inline std::vector<std::pair<uintptr_t, size_t>> mapped;
  static inline bool fail = false;
  static void* Map(size_t bytes) {
    if (fail) return nullptr;
    auto* p = static_cast<char*>(aligned_alloc(8192, RoundUp(bytes, 8192) + 8192));
    memset(p, 0, bytes + 8192);
    mapped.emplace_back(reinterpret_cast<uintptr_t>(p) + 4096, bytes);
    return p + 4096;
  }
  OddPages() { fail = false; }
  ~OddPages() {
    for (const auto& [at, bytes] : mapped) free(reinterpret_cast<void*>(at - 4096));
    mapped.clear();
  }
  static bool Holds(const void* p, size_t n) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    return std::any_of(mapped.begin(), mapped.end(), [&](const auto& m) {
      return at >= m.first && at + n <= m.first + m.second;
    });
  }
};

// Chunks are left and come back while the heap grows in steps, and others take what it leaves.
TEST(MetadataArena, PiecesThatWereLeftServeAgain) {
  OddPages pages;
  MetadataArena arena(&OddPages::Map);
  std::mt19937 random(4);
  size_t promised = 0, made = 0;
  const auto take = [&](size_t bytes, size_t align, MetadataUse use) {
    void* p = arena.Allocate(bytes, align, use);
    ASSERT_NE(p, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
    ASSERT_TRUE(OddPages::Holds(p, bytes));
    ASSERT_TRUE(AllZero(p, bytes));
    memset(p, 0xee, bytes);
    if (use == MetadataUse::kHeap) made += bytes;
  };
  for (int round = 0; round < 60; ++round) {
    promised += 1000 + random() % 400'000;
    ASSERT_TRUE(arena.EnsureHeapTotal(promised));
    for (size_t i = random() % 400; i > 0; --i) {
      const size_t bytes = 1 + random() % (random() % 20 == 0 ? 50'000 : 2000);
      take(bytes, size_t{8} << random() % 10, MetadataUse::kOther);
      if (HasFatalFailure()) return;
    }
    OddPages::fail = round % 2 == 0;
    while (made + 96 <= promised) {
      take(96, 16, MetadataUse::kHeap);
      if (HasFatalFailure()) return;
    }
    OddPages::fail = false;
  }
}

TEST(MetadataArena, LargeRecordsAreAlignedBeyondPages) {
  OddPages pages;
  MetadataArena arena(&OddPages::Map);
  for (const size_t align : {64, 4096, 8192}) {
    void* p = arena.Allocate(300'000, align);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
    EXPECT_TRUE(OddPages::Holds(p, 300'000));
  }
}

// The heap of 100 GiB in the steps in which it grows: each maps the difference.
TEST(MetadataArena, AddressSpaceIsLinearInTheHeap) {
  static size_t mapped;
  static char* area = static_cast<char*>(mmap(nullptr, size_t{8} << 30, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  mapped = 0;
  MetadataArena arena([](size_t bytes) -> void* {
    void* p = area + mapped;
    mapped += bytes;
    return mapped <= size_t{8} << 30 ? p : nullptr;
  });
  size_t used = 0;
  for (size_t heap = 32 << 20; heap <= size_t{100} << 30;) {
    ASSERT_TRUE(arena.EnsureHeapTotal(MetadataFor(heap)));
    ASSERT_LE(mapped, MetadataFor(heap) + (512 << 10)) << heap;
    // Some of it is used, as programs do.
    for (; used < heap / 400; used += 176)
      ASSERT_NE(arena.Allocate(176, 16, MetadataUse::kHeap), nullptr);
    heap += std::min(std::max(size_t{64} << 20, heap / 8), size_t{1} << 30);
  }
  munmap(area, size_t{8} << 30);
}

TEST(MetadataArena, ThreadsGetDifferentMemory) {
  TestArena memory;
  constexpr size_t kThreads = 4;
  constexpr size_t kPieces = 3000;
  std::vector<std::vector<uint64_t*>> got(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kPieces; ++i) {
        got[t].push_back(memory.arena().New<uint64_t>());
        *got[t].back() = t * kPieces + i;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < kPieces; ++i) ASSERT_EQ(*got[t][i], t * kPieces + i);
  }
  EXPECT_EQ(memory.arena().used_bytes(), kThreads * kPieces * sizeof(uint64_t));
}

struct Record {
  Record() { ++alive; }
  ~Record() { --alive; }
  uint32_t value = 11;
  char rest[60] = {};
  static inline int alive = 0;
};

TEST(RecordPool, RecyclesRecordsAndConstructsThemAnew) {
  TestArena memory;
  RecordPool<Record> pool(memory.arena());
  Record* a = pool.New();
  Record* b = pool.New();
  ASSERT_NE(a, b);
  a->value = 99;
  pool.Delete(a);
  EXPECT_EQ(Record::alive, 1);
  const size_t used = memory.arena().used_bytes();
  Record* c = pool.New();
  EXPECT_EQ(c, a);
  EXPECT_EQ(c->value, 11u);
  EXPECT_EQ(memory.arena().used_bytes(), used);
  pool.Delete(b);
  pool.Delete(c);
  EXPECT_EQ(Record::alive, 0);
}

TEST(RecordPool, RecordsSmallerThanALinkAndOverAlignedOnes) {
  struct alignas(128) Wide {
    char c = 1;
  };
  TestArena memory;
  RecordPool<char> chars(memory.arena());
  RecordPool<Wide> wides(memory.arena());
  char* a = chars.New();
  char* b = chars.New();
  EXPECT_GE(b > a ? b - a : a - b, 8);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(wides.New()) % 128, 0u);
    chars.New();
  }
  chars.Delete(a);
  chars.Delete(b);
  EXPECT_EQ(chars.New(), b);
  EXPECT_EQ(chars.New(), a);
}

TEST(RecordPool, GivesNullWhenTheArenaDoesAndRecyclesAfter) {
  TestArena memory;
  RecordPool<Record> pool(memory.arena());
  memory.fail = true;
  EXPECT_EQ(pool.New(), nullptr);
  memory.fail = false;
  Record* r = pool.New();
  ASSERT_NE(r, nullptr);
  memory.fail = true;
  pool.Delete(r);
  EXPECT_EQ(pool.New(), r);
  pool.Delete(r);
}

}  // namespace
}  // namespace strata
