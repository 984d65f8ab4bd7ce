// Reap: region speed until the first free, a heap after it, a region again when all is free.
#include "strata/layers/combine/reap.h"

#include <sys/mman.h>

#include "heap_model.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"
#include "strata/layers/tool/fail_nth.h"

namespace strata::layers {
namespace {

using Plain = Stack<Reap<>, Count, Mmap>;
const Counts& Below(Plain& heap) { return layer<Count>(heap).counts(); }

TEST(Reap, BumpsUntilSomethingIsFreed) {
  Plain heap;
  auto* a = static_cast<char*>(heap.allocate(24));
  auto* b = static_cast<char*>(heap.allocate(24));
  EXPECT_EQ(b, a + 32) << "eight bytes a block";
  EXPECT_TRUE(heap.bumping());
  heap.allocate(24);
  heap.deallocate(a);
  EXPECT_FALSE(heap.bumping());
  for (int i = 0; i < 1000 && heap.allocate(20) != a; ++i) {
  }
  EXPECT_LT(heap.held(), 9000u) << "what was freed is used before there is a new chunk";
  EXPECT_TRUE(heap.bumping());
}

TEST(Reap, BumpsThroughTheHolesThatFreesLeft) {
  Plain heap;
  std::vector<char*> p;
  while (p.size() < 7) p.push_back(static_cast<char*>(heap.allocate(1000)));
  heap.allocate(6000);  // the second chunk is full, but for little
  for (size_t i = 1; i < 6; ++i) heap.deallocate(p[i]);
  char* first = nullptr;
  for (int i = 0; i < 25; ++i) {
    auto* q = static_cast<char*>(heap.allocate(300));
    if (q < p[1] || q > p[6]) continue;  // of what was left
    if (first == nullptr) first = q;
    EXPECT_EQ((q - first) % 320, 0) << "one behind the other";
  }
  EXPECT_EQ(first, p[1]);
}

// A rest of 16 bytes is no block; it must not stay behind when its neighbours go.
TEST(Reap, LosesNoScrapsOfWindows) {
  Plain heap;
  std::mt19937 random(2);
  void* base = heap.allocate(10);
  for (int round = 0; round < 300; ++round) {
    std::vector<void*> live;
    for (int i = 0; i < 150; ++i) live.push_back(heap.allocate(random() % 30 * 16 + 8));
    for (int i = 0; i < 150; ++i) {
      std::swap(live[random() % live.size()], live.back());
      heap.deallocate(live.back());
      live.pop_back();
    }
    EXPECT_EQ(heap.used(), 32u);
  }
  EXPECT_LE(heap.held(), 128u << 10);
  EXPECT_NE(heap.allocate(7000), nullptr);
  heap.deallocate(base);
}

// The other chunks can't be read meanwhile, so there is no walk along them.
TEST(Reap, LooksAtNoOtherChunkWhereABlockEndsWithItsOwn) {
  Stack<Reap<8192, 8192>, Mmap> heap;
  constexpr size_t kEach = 13, kChunks = 1000;  // the last of 13 ends with its chunk
  std::vector<char*> p;
  while (p.size() < kEach * kChunks) p.push_back(static_cast<char*>(heap.allocate(616)));
  ASSERT_EQ(heap.held(), kChunks * 8192);
  const auto protect = [&](int how) {
    for (size_t chunk = 2; chunk < kChunks - 1; ++chunk) {
      const uintptr_t page = reinterpret_cast<uintptr_t>(p[chunk * kEach]) & ~uintptr_t{4095};
      ASSERT_EQ(mprotect(reinterpret_cast<void*>(page), 8192, how), 0);
    }
  };
  protect(PROT_NONE);
  for (size_t i = 2 * kEach - 1; i > kEach; --i) heap.deallocate(p[i]);
  protect(PROT_READ | PROT_WRITE);
  ASSERT_EQ(heap.held(), kChunks * 8192);
  heap.deallocate(p[kEach]);
  heap.reserve(0);  // joins what waits
  EXPECT_EQ(heap.held(), (kChunks - 1) * 8192) << "the whole chunk goes";
}

TEST(Reap, StepsBackWhereTheLastIsFreed) {
  Plain heap;
  void* base = heap.allocate(100);
  for (int i = 0; i < 100'000; ++i) {
    void* p = heap.allocate(1000);
    void* q = heap.allocate(50);
    heap.deallocate(q);
    heap.deallocate(p);
  }
  EXPECT_TRUE(heap.bumping());
  EXPECT_LE(heap.held(), 8192u);
  heap.deallocate(base);
}

// A free may wait to be joined with its neighbours, but not for long.
TEST(Reap, GivesChunksBackWhileNothingIsAllocated) {
  Stack<Reap<8192, 131072>, Count, Mmap> heap;
  std::vector<void*> p;
  while (p.size() < 20'000) p.push_back(heap.allocate(1000));
  const size_t before = heap.held();
  for (size_t i = 1; i < p.size(); ++i) {
    heap.deallocate(p[i]);
    ASSERT_LE(heap.held(), before - i * 1000 + 3 * 131072);
  }
  EXPECT_EQ(heap.used(), 1008u);
}

// Its neighbours take a block that waits for one in use, its owner for one that is gone.
TEST(Reap, TellsABlockThatWaitsFromOneInUse) {
  Plain heap;
  std::vector<void*> p;
  while (p.size() < 9) p.push_back(heap.allocate(100));
  for (size_t i : {2, 4, 3, 6, 5}) heap.deallocate(p[i]);
  for (size_t i = 2; i <= 6; ++i) EXPECT_FALSE(heap.is_live(p[i]));
  EXPECT_TRUE(heap.is_live(p[1]) && heap.is_live(p[7]));
  EXPECT_TRUE(heap.resize(p[1], 600)) << "over the five that wait";
  EXPECT_FALSE(heap.resize(p[1], 700));
  heap.deallocate(p[7]);
  EXPECT_TRUE(heap.resize(p[1], 700));
  heap.deallocate(p[0]);
  heap.deallocate(p[1]);
  heap.deallocate(p[8]);
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_TRUE(heap.bumping());
}

TEST(Reap, IsARegionAgainWhenAllIsFree) {
  Plain heap;
  std::vector<void*> p;
  for (int i = 0; i < 5000; ++i) p.push_back(heap.allocate(100));
  for (size_t i = 0; i < p.size(); i += 2) heap.deallocate(p[i]);
  for (size_t i = 1; i < p.size(); i += 2) heap.deallocate(p[i]);
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_TRUE(heap.bumping());
  auto* a = static_cast<char*>(heap.allocate(24));
  EXPECT_EQ(heap.allocate(24), a + 32);
}

TEST(Reap, ClearsEverythingAtOnce) {
  Plain heap;
  for (int i = 0; i < 1000; ++i) heap.allocate(static_cast<size_t>(i) * 17);
  heap.allocate(3 << 20);
  EXPECT_GT(heap.held(), 10'000'000u);
  heap.clear();
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_LT(heap.held(), 1u << 20) << "one chunk for the next round";
  EXPECT_EQ(Below(heap).bytes, heap.held());
}

// The cases for which a pure region grows without bound.
TEST(Reap, StaysNearItsLiveDataInALongRun) {
  Plain heap;
  std::mt19937 random(1);
  std::vector<ModelBlock> live(4000, ModelBlock{nullptr, 0, 0});
  size_t bytes = 0, worst = 0;
  for (int i = 0; i < 400'000; ++i) {
    ModelBlock& b = live[random() % live.size()];
    if (b.p != nullptr) {
      bytes -= b.size;
      heap.deallocate(b.p);
    }
    b.size = 16 + random() % 500;
    b.p = static_cast<unsigned char*>(heap.allocate(b.size));
    ASSERT_NE(b.p, nullptr);
    bytes += b.size;
    if (i > 50'000 && heap.held() * 100 / bytes > worst) worst = heap.held() * 100 / bytes;
  }
  EXPECT_LE(static_cast<double>(worst) / 100 * static_cast<double>(bytes),
            1.2 * static_cast<double>(bytes) + (1 << 20))
      << worst << " %";
}

TEST(Reap, GivesLargeBlocksMemoryOfTheirOwnAndTakesItBack) {
  Plain heap;
  void* small = heap.allocate(10);
  const size_t before = Below(heap).bytes;
  void* large = heap.allocate(5 << 20);
  EXPECT_GE(Below(heap).bytes, before + (5u << 20));
  EXPECT_GE(heap.size_of(large), 5u << 20);
  heap.deallocate(large);
  EXPECT_EQ(Below(heap).bytes, before);
  heap.deallocate(small);
}

TEST(Reap, AlignsAsAsked) {
  Stack<Reap<>, Count, Mmap> heap;
  EXPECT_EQ(heap.allocate(size_t{1} << 63, size_t{1} << 63), nullptr);
  std::mt19937 random(3);
  std::vector<ModelBlock> live;
  for (int i = 0; i < 3000; ++i) {
    const size_t align = size_t{16} << (random() % 9);
    const size_t size = i % 100 == 0 ? 500'000 : random() % 600;
    ModelBlock b{static_cast<unsigned char*>(heap.allocate(size, align)), size,
                 static_cast<unsigned char>(i)};
    ASSERT_NE(b.p, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(b.p) % align, 0u);
    Fill(b);
    live.push_back(b);
    if (live.size() > 200) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(Intact(live.back()));
      heap.deallocate(live.back().p);
      live.pop_back();
    }
  }
  for (const ModelBlock& b : live) {
    ASSERT_TRUE(Intact(b));
    heap.deallocate(b.p);
  }
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_EQ(heap.allocate(SIZE_MAX, 64), nullptr);
  EXPECT_EQ(heap.allocate(16, size_t{1} << 62), nullptr);
}

TEST(Reap, ResizesInPlaceWhereItCan) {
  Plain heap;
  void* p = heap.allocate(100);
  EXPECT_TRUE(heap.resize(p, 3000)) << "the newest grows over the bump";
  void* q = heap.allocate(100);
  EXPECT_FALSE(heap.resize(p, 5000));
  EXPECT_TRUE(heap.resize(p, 1000));
  EXPECT_FALSE(heap.bumping()) << "what was cut off is a free block";
  EXPECT_TRUE(heap.resize(p, 3000)) << "and can be had back";
  EXPECT_TRUE(heap.bumping());
  heap.deallocate(q);
  heap.deallocate(p);
  EXPECT_EQ(heap.used(), 0u);
}

TEST(Reap, MovesLargeBlocksByTheirPages) {
  Stack<Reap<>, Mmap> heap;
  auto* small = static_cast<char*>(heap.allocate(100));
  heap.allocate(500'000);  // its neighbour in the list
  auto* p = static_cast<char*>(heap.allocate(400'000, 8192));
  EXPECT_TRUE(heap.reads_zero(p));
  EXPECT_FALSE(heap.reads_zero(small));
  memset(p, 5, 400'000);
  const size_t held = heap.held(), used = heap.used();
  p = static_cast<char*>(heap.remap(p, 9'000'000));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 4096, 0u);
  EXPECT_GE(heap.size_of(p), 9'000'000u);
  EXPECT_EQ(p[399'999], 5);
  EXPECT_EQ(p[8'999'999], 0);
  EXPECT_EQ(heap.held() - held, heap.used() - used);
  EXPECT_NEAR(static_cast<double>(heap.held() - held), 8'600'000, 4096);
  heap.set_cap(heap.held() + 100'000);
  EXPECT_EQ(heap.remap(p, 10'000'000), nullptr) << "the cap";
  EXPECT_EQ(heap.remap(p, kMaxRequest), nullptr);
  EXPECT_EQ(heap.remap(p, 100), nullptr) << "a copy lets go of more";
  EXPECT_EQ(heap.remap(small, 1'000'000), nullptr);
  p = static_cast<char*>(heap.remap(p, 300'000));
  ASSERT_NE(p, nullptr);
  EXPECT_LT(heap.held(), held);
  EXPECT_EQ(p[299'999], 5);
  heap.deallocate(p);
  heap.clear();
  EXPECT_EQ(heap.used(), 0u);
}

TEST(Reap, KnowsASecondFree) {
  Plain heap;
  void* p = heap.allocate(100);
  void* q = heap.allocate(100);
  void* r = heap.allocate(100);
  heap.allocate(1);
  EXPECT_TRUE(heap.is_live(p));
  heap.deallocate(p);
  heap.deallocate(q);
  EXPECT_FALSE(heap.is_live(p));
  EXPECT_FALSE(heap.is_live(q)) << "though it is part of p's block now";
  EXPECT_TRUE(heap.is_live(r));
}

TEST(Reap, KnowsABlockFromBeforeAClear) {
  Plain heap;
  void* p = heap.allocate(100);
  heap.clear();
  EXPECT_FALSE(heap.is_live(p));
  EXPECT_EQ(heap.allocate(100), p);
  EXPECT_TRUE(heap.is_live(p));
}

TEST(Reap, ObeysItsCap) {
  Plain heap;
  heap.set_cap(64 << 10);
  std::vector<void*> p;
  for (void* q = heap.allocate(1000); q != nullptr; q = heap.allocate(1000)) p.push_back(q);
  EXPECT_LE(heap.held(), 64u << 10);
  EXPECT_GT(p.size(), 40u);
  heap.deallocate(p[3]);
  EXPECT_EQ(heap.allocate(1000), p[3]);

  struct Asked {
    int times = 0;
    size_t held = 0;
  } asked;
  heap.set_cap(
      64 << 10,
      [](void* context, size_t held, size_t wanted, size_t cap) {
        auto* a = static_cast<Asked*>(context);
        ++a->times;
        a->held = held;
        return wanted < 100'000 ? cap * 2 : cap;
      },
      &asked);
  EXPECT_NE(heap.allocate(1000), nullptr);
  EXPECT_GE(asked.times, 1);
  EXPECT_LE(asked.held, 64u << 10);
  EXPECT_EQ(heap.allocate(10 << 20), nullptr) << "the function said no";
}

TEST(Reap, IsRefusedWhereTheFunctionOfItsCapSaysNothing) {
  Plain heap;
  heap.set_cap(64 << 10, [](void*, size_t, size_t, size_t) { return size_t{0}; });
  size_t n = 0;
  while (n < 1000 && heap.allocate(1000) != nullptr) ++n;
  EXPECT_LT(n, 66u);
  EXPECT_EQ(heap.cap(), 64u << 10);
  EXPECT_EQ(heap.allocate(100'000), nullptr);
  EXPECT_NE(heap.refused_by_cap(), 0u);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.refused_by_cap(), 0u);
}

// It may free blocks, so that there is room below the same cap, and allocate ones.
TEST(Reap, MayBeUsedInTheFunctionOfItsCap) {
  struct Program {
    Plain heap;
    std::vector<void*> cache;
    int asked = 0;
  } program;
  program.heap.set_cap(
      64 << 10,
      [](void* context, size_t, size_t, size_t cap) {
        auto& [heap, cache, asked] = *static_cast<Program*>(context);
        ++asked;
        for (void* p : cache) heap.deallocate(p);
        cache.assign(1, heap.allocate(10));
        EXPECT_NE(cache[0], nullptr);
        return cap;
      },
      &program);
  for (int i = 0; i < 1000; ++i) {
    program.cache.push_back(program.heap.allocate(500 + static_cast<size_t>(i)));
    ASSERT_NE(program.cache.back(), nullptr) << i;
  }
  EXPECT_GT(program.asked, 10);
  EXPECT_LE(program.heap.held(), 64u << 10);
}

TEST(Reap, IsWholeAfterTheFunctionOfItsCapThrew) {
  Plain heap;
  heap.set_cap(64 << 10, [](void*, size_t, size_t wanted, size_t) -> size_t { throw wanted; });
  std::vector<void*> blocks;
  EXPECT_THROW(for (;;) blocks.push_back(heap.allocate(1000)), size_t);
  EXPECT_THROW(heap.allocate(100'000), size_t);
  EXPECT_LE(heap.held(), 64u << 10);
  heap.set_cap(0);
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_EQ(heap.used(), 0u);
  RunModel(heap, 1000, 3, MixedSize);
}

TEST(Reap, DoesNotAskItsCapForAHint) {
  Plain heap;
  heap.set_cap(8 << 10, [](void*, size_t, size_t, size_t) -> size_t { throw 1; });
  EXPECT_NO_THROW(heap.reserve(100'000));
  EXPECT_EQ(heap.held(), 0u);
}

template <class H>
class ReapModelTest : public testing::Test {};
using Stacks =
    testing::Types<Stack<Check, Reap<>, Count, Mmap>, Stack<Check, Reap<4096, 16384>, Count, Mmap>,
                   Stack<Check, Reap<4096, 4096>, Bump<>, Mmap>>;
TYPED_TEST_SUITE(ReapModelTest, Stacks);

TYPED_TEST(ReapModelTest, KeepsBlocksApartAndWhole) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    TypeParam heap;
    RunModel(heap, 6000, seed, MixedSize);
    RunModel(heap, 3000, seed + 100, [](std::mt19937& r) { return r() % 60; });
  }
}

// With blocks that are aligned and that grow over neighbours, of which some wait to be joined. With
// the largest chunk goes how much may wait: 1 KiB, 32 KiB.
template <class H>
void FullModel() {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    H heap;
    RunFullModel(heap, 10'000, seed, MixedSize);
    RunFullModel(heap, 5'000, seed + 100, [](std::mt19937& r) { return r() % 3000; });
    EXPECT_EQ(heap.used(), 0u);
    EXPECT_TRUE(heap.bumping());
  }
}
TEST(Reap, KeepsBlocksWholeThroughAllThatItCanDo) {
  FullModel<Stack<Reap<4096, 4096>, Count, Mmap>>();
  FullModel<Stack<Reap<8192, 131072>, Count, Mmap>>();
}
TEST(Reap, StepsBackOverItsNewestBlockOnly) {
  Stack<Reap<8192, 131072>, Count, Mmap> heap;
  void* first = heap.allocate(48);
  void* second = heap.allocate(48);
  void* newest = heap.allocate(48);
  EXPECT_FALSE(heap.step_back(second));
  EXPECT_TRUE(heap.step_back(newest));
  EXPECT_TRUE(heap.step_back(second));
  EXPECT_FALSE(heap.step_back(first)) << "the last one: the reap has to look at what it holds";
  heap.deallocate(first);
  EXPECT_EQ(heap.used(), 0u);
}
// What begins at an address a chunk may have begun at: only a live chunk has an owner.
TEST(Reap, OnlyAChunkHasAnOwner) {
  alignas(ReapChunk) char memory[4096] = {};
  EXPECT_EQ(ReapChunk::OwnerAt(memory), nullptr);
  ReapChunk* list = nullptr;
  int owner = 0;
  ReapChunk* chunk = ReapChunk::Make(memory, sizeof(memory), &owner, &list);
  EXPECT_EQ(ReapChunk::OwnerAt(memory), &owner);
  alignas(ReapChunk) char copy[4096];
  memcpy(copy, memory, sizeof(memory));
  EXPECT_EQ(ReapChunk::OwnerAt(copy), nullptr) << "what lies elsewhere is no chunk";
  chunk->Unlink(&list);
  EXPECT_EQ(ReapChunk::OwnerAt(memory), nullptr);
}
// No request may be served from a window that was shut.
TEST(Reap, AShutWindowStaysShut) {
  Stack<Reap<8192, 131072>, Count, Mmap> heap;
  heap.shut_window();
  for (int i = 0; i < 3; ++i) {
    void* p = heap.allocate(48);
    void* unserved;
    EXPECT_FALSE(heap.bump(48, &unserved)) << i;
    heap.deallocate(p);
  }
}
// What a shared reap does: no window, so every request takes the slow path.
TEST(Reap, KeepsBlocksWholeWithTheWindowShut) {
  Stack<Reap<8192, 131072>, Count, Mmap> heap;
  heap.shut_window();
  RunFullModel(heap, 20'000, 1, MixedSize);
  EXPECT_EQ(heap.used(), 0u);
}

TEST(Reap, SurvivesARefusedChunkAndARefusedFinder) {
  for (size_t n = 1; n <= 10; ++n) {
    Stack<Check, Reap<4096, 16384>, FailNth, Count, Mmap> heap;
    layer<FailNth>(heap).fail_each(n);
    std::mt19937 random(static_cast<unsigned>(n));
    std::vector<ModelBlock> live;
    for (int i = 0; i < 2000; ++i) {
      ModelBlock b{nullptr, MixedSize(random), static_cast<unsigned char>(i)};
      b.p = static_cast<unsigned char*>(heap.allocate(b.size));
      if (b.p != nullptr) {
        Fill(b);
        live.push_back(b);
      }
      if (i % 3 != 0 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        ASSERT_TRUE(Intact(live.back()));
        heap.deallocate(live.back().p, live.back().size);
        live.pop_back();
      }
    }
    for (const ModelBlock& b : live) ASSERT_TRUE(Intact(b));
    layer<Reap<4096, 16384>>(heap).clear();
  }
}

TEST(Reap, GivesEverythingBack) {
  Counts counts;
  {
    Plain heap;
    RunModel(heap, 3000, 9, MixedSize);
    heap.allocate(10);
    heap.allocate(3 << 20);
    EXPECT_EQ(Below(heap).bytes, heap.held());
    heap.clear();
    heap.set_cap(1);
    counts = Below(heap);
  }
  EXPECT_LE(counts.blocks(), 2u) << "a chunk and the finder";
}

}  // namespace
}  // namespace strata::layers
