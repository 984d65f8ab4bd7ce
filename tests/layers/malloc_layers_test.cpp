// The layers that a malloc is made of and that have no test elsewhere: Apart, ClassHeader,
// LockedWhenShared, OnlyLive, and the sources Sbrk and Growing. Random programs against models.
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "heap_model.h"
#include "strata/layers/combine/apart.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/class_header.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/only_live.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/source/growing.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/source/sbrk.h"
#include "strata/layers/thread/locked_when_shared.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"

namespace strata::layers {
namespace {

// --- Apart

// Mmap, which notes what is out and can be told to refuse.
class NotingMmap {
 public:
  static constexpr size_t alignment = Mmap::alignment;
  static constexpr bool thread_safe = false;
  void* allocate(size_t size) {
    void* p = refuses ? nullptr : mmap_.allocate(size);
    if (p != nullptr) out[reinterpret_cast<uintptr_t>(p)] = size;
    return p;
  }
  void deallocate(void* p, size_t size) {
    EXPECT_EQ(out.at(reinterpret_cast<uintptr_t>(p)), size);
    out.erase(reinterpret_cast<uintptr_t>(p));
    mmap_.deallocate(p, size);
  }
  // How long the mapping is that p lies in; 0: in none of these.
  static size_t Around(const void* p) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    const auto after = out.upper_bound(at);
    if (after == out.begin()) return 0;
    const auto& [start, size] = *std::prev(after);
    return at < start + size ? size : 0;
  }

  static inline std::map<uintptr_t, size_t> out;
  static inline bool refuses = false;

 private:
  Mmap mmap_;
};

constexpr size_t kFirst = 16 << 10, kMost = 64 << 10;
using ApartHeap = Stack<Check, Apart<kFirst, NotingMmap, kMost>, Coalesce<65536>, Mmap>;

// The model: what is freed apart, and is not beyond the last limit, becomes the limit.
TEST(Apart, FollowsAModelOfItsLimit) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    ApartHeap heap;
    std::vector<ModelBlock> live;
    size_t limit = kFirst;
    for (int i = 0; i < 1500; ++i) {
      if (live.empty() || random() % 100 < 55) {
        ModelBlock b{nullptr, random() % (100 << 10), static_cast<unsigned char>(i)};
        b.p = static_cast<unsigned char*>(heap.allocate(b.size));
        ASSERT_EQ(NotingMmap::Around(b.p) != 0, b.size >= limit) << b.size << " at " << limit;
        Fill(b);
        live.push_back(b);
      } else {
        std::swap(live[random() % live.size()], live.back());
        const ModelBlock b = live.back();
        live.pop_back();
        ASSERT_TRUE(Intact(b));
        const size_t apart = NotingMmap::Around(b.p);
        if (apart > limit && apart <= kMost) limit = apart;
        heap.deallocate(b.p);
        ASSERT_EQ(NotingMmap::Around(b.p), 0u) << "gone at once";
      }
    }
    EXPECT_EQ(limit, kMost);
    for (const ModelBlock& b : live) heap.deallocate(b.p);
    EXPECT_TRUE(NotingMmap::out.empty());
  }
}

TEST(Apart, AsksBelowWhenItsSourceRefuses) {
  ApartHeap heap;
  NotingMmap::refuses = true;
  void* p = heap.allocate(kMost);
  NotingMmap::refuses = false;
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(NotingMmap::Around(p), 0u);
  EXPECT_GE(heap.size_of(p), kMost);
  heap.deallocate(p);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
}

TEST(Apart, AlignsAndSaysWhatFits) {
  Stack<Check, Apart<kFirst, NotingMmap, kFirst>, Coalesce<65536>, Mmap>
      heap;  // a limit that stays
  for (size_t align = 16; align <= 1 << 20; align *= 2) {
    for (size_t size : {kFirst, kFirst + 4056, kFirst + 4080, kMost + 1}) {
      auto* p = static_cast<char*>(heap.allocate(size, align));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
      ASSERT_GE(heap.size_of(p), size);
      ASSERT_NE(NotingMmap::Around(p), 0u);
      ASSERT_EQ(NotingMmap::Around(p), NotingMmap::Around(p + heap.size_of(p) - 1));
      memset(p, 1, heap.size_of(p));
      heap.deallocate(p);
    }
  }
  EXPECT_TRUE(NotingMmap::out.empty());
}

// --- ClassHeader

using Classed =
    Stack<ClassHeader, Bins<PowersOfTwo<32, 1 << 16>, FreeList>, Bump<1 << 17, 8>, Mmap>;

// Blocks keep to their class, so an address that was of one never is of another. One in five is
// aligned, and lies anywhere in its block.
TEST(ClassHeader, KeepsAddressesInTheirClass) {
  std::mt19937 random(1);
  Check::On<Classed> heap;
  std::map<void*, size_t> classes;
  std::vector<ModelBlock> live;
  for (int i = 0; i < 20'000; ++i) {
    if (live.size() < 300 && random() % 100 < 55) {
      ModelBlock b{nullptr, MixedSize(random) / 2, static_cast<unsigned char>(random())};
      const size_t align = random() % 5 == 0 ? size_t{32} << random() % 8 : 16;
      b.p = static_cast<unsigned char*>(heap.allocate(b.size, align));
      ASSERT_NE(b.p, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(b.p) % align, 0u);
      const size_t whole = heap.size_of(b.p) + 8;
      ASSERT_GE(whole, b.size + 8);
      if (align == 16) {
        ASSERT_TRUE(IsPowerOfTwo(whole));
        ASSERT_TRUE(whole == 32 || whole / 2 < b.size + 8) << "the smallest that holds it";
        ASSERT_EQ(classes.try_emplace(b.p, whole).first->second, whole);
      }
      Fill(b);
      live.push_back(b);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(Intact(live.back()));
      heap.deallocate(live.back().p);
      live.pop_back();
    }
  }
}

TEST(ClassHeader, KnowsWhatIsNoBlock) {
  Classed heap;
  alignas(16) size_t words[4] = {0, 0x5b10, 7, 0};
  EXPECT_EQ(heap.size_of(words + 2), 0u);
  EXPECT_EQ(heap.allocate(size_t{1} << 47), nullptr) << "more than there are addresses";
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
}

using OverCoalesce =
    Stack<ClassHeader, Bins<PowersOfTwo<32, 1 << 12>, FreeList>, Check, Count, Coalesce<>, Mmap>;

// What no class holds comes from the heap below the bins, and goes back there as large as it was.
TEST(ClassHeader, LeavesLargeBlocksToTheHeapBelow) {
  OverCoalesce heap;
  const auto out = [&heap] { return layer<Count>(heap).counts().blocks(); };
  for (const size_t size : std::initializer_list<size_t>{4080, 4081, 5000, 1 << 20}) {
    for (const size_t align : std::initializer_list<size_t>{16, 64, 4096}) {
      const size_t before = out();
      ModelBlock b{static_cast<unsigned char*>(heap.allocate(size, align)), size, 'x'};
      ASSERT_NE(b.p, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(b.p) % align, 0u);
      EXPECT_GE(heap.size_of(b.p), size);
      Fill(b);
      EXPECT_TRUE(Intact(b));
      heap.deallocate(b.p);
      if (size > 4080) {
        EXPECT_EQ(out(), before) << size << ", aligned to " << align;
      }
    }
  }
}

TEST(ClassHeaderDeathTest, FindsALargeBlockFreedTwice) {
  OverCoalesce heap;
  void* p = heap.allocate(5000);
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "no live block");
}

// --- LockedWhenShared

using Shared = Stack<LockedWhenShared, Count, Coalesce<>, Mmap>;

TEST(LockedWhenSharedDeathTest, TakesNoLockAlone) {
  if (!__libc_single_threaded) GTEST_SKIP() << "this process had threads";
  // In a process of its own: where it does take the lock it waits for itself. TSan starts a thread
  // there.
  EXPECT_EXIT(
      {
        if (!__libc_single_threaded) _exit(7);
        alarm(20);
        Shared heap;
        heap.next().lock().lock();
        heap.deallocate(heap.allocate(100));
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(LockedWhenShared, WaitsForTheLockBesideOthers) {
  Shared heap;
  std::atomic<bool> done{false};
  heap.next().lock().lock();
  std::thread other([&] {
    void* p = heap.allocate(100);
    done = true;
    heap.deallocate(p);
  });
  usleep(50'000);
  EXPECT_FALSE(done);
  heap.next().lock().unlock();
  other.join();
  EXPECT_TRUE(done);
}

TEST(LockedWhenShared, RunsTheModelInThreads) {
  Shared heap;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, t] { RunModel(heap, 4000, t, MixedSize); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(layer<Count>(heap).counts().blocks(), 0u);
  EXPECT_EQ(layer<Count>(heap).counts().bytes, 0u);
}

// What calloc asks, of a tag that another thread's free of a neighbour writes; ThreadSanitizer
// watches.
TEST(LockedWhenShared, KnowsWhatReadsZeroWhileNeighboursGo) {
  LockedWhenShared::On<Stack<Apart<256 << 10, Mmap>, Coalesce<>, Mmap>> heap;
  auto churn = [&heap] {
    std::mt19937 random(1);
    std::vector<void*> blocks(100);
    for (size_t i = 0; i < 50'000; ++i) {
      void*& p = blocks[random() % blocks.size()];
      if (p != nullptr) heap.deallocate(p);
      p = heap.allocate(16 + random() % 500);
      for (int again = 0; again < 4; ++again) ASSERT_FALSE(heap.reads_zero(p));
    }
    for (void* p : blocks) {
      if (p != nullptr) heap.deallocate(p);
    }
  };
  std::thread other(churn);
  churn();
  other.join();
}

// --- Coalesce

TEST(CoalesceDeathTest, RefusesWhatIsFreed) {
  Stack<Coalesce<>, Mmap> heap;
  void* p = heap.allocate(100);
  void* behind = heap.allocate(100);
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "^strata: ");
  heap.deallocate(behind);
}

// --- OnlyLive

TEST(OnlyLiveDeathTest, RefusesWhatIsFreedOrLiesInside) {
  Stack<OnlyLive, Reap<>, Mmap> heap;
  auto* p = static_cast<char*>(heap.allocate(100));
  void* behind = heap.allocate(100);
  EXPECT_DEATH(heap.deallocate(p + 8), "^strata: free of a pointer that is no live block");
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "no live block");
  EXPECT_DEATH(heap.deallocate(p, 100), "no live block");
  EXPECT_DEATH(heap.resize(p, 10), "no live block");
  EXPECT_TRUE(heap.resize(behind, 200));
  heap.deallocate(behind);
}

// --- Sources

// Draws sizes, and now and then takes a part of the data segment as another library would.
size_t SizeBesideOthers(std::mt19937& random) {
  if (random() % 20 == 0) sbrk(static_cast<intptr_t>(1 + random() % 5000));
  return MixedSize(random);
}

TEST(Sbrk, LivesWithOthersWhoMoveTheBreak) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Check::On<Sbrk> bare;
    RunModel(bare, 1500, seed, SizeBesideOthers);
    Stack<Check, Coalesce<65536>, Sbrk> heap;
    RunModel(heap, 4000, seed, SizeBesideOthers);
  }
}

TEST(Sbrk, GivesBackItsEndOnly) {
  Sbrk heap;
  const auto* before = static_cast<char*>(sbrk(0));
  auto* a = static_cast<char*>(heap.allocate(1 << 20));
  auto* b = static_cast<char*>(heap.allocate(1 << 20));
  const auto* full = static_cast<char*>(sbrk(0));
  memset(a, 1, 1 << 20);
  heap.deallocate(a, 1 << 20);  // not the end: its pages alone
  const auto* between = static_cast<char*>(sbrk(0));
  const char emptied = a[1000];
  heap.deallocate(b, 1 << 20);
  const auto* after = static_cast<char*>(sbrk(0));
  EXPECT_GE(full - before, 2 << 20);
  EXPECT_EQ(b - a, 1 << 20);
  EXPECT_EQ(between, full);
  EXPECT_EQ(emptied, 0);
  EXPECT_EQ(after, b);
}

TEST(Sbrk, MapsWhereTheBreakCannotMove) {
  auto* end = static_cast<char*>(sbrk(0));
  auto* behind = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(end), 4096));
  void* wall =
      mmap(behind, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  Sbrk heap;
  auto* p = static_cast<char*>(heap.allocate(1 << 20));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(sbrk(0), end);
  memset(p, 1, 1 << 20);
  heap.deallocate(p, 1 << 20);
  unsigned char resident;
  EXPECT_EQ(mincore(p, 4096, &resident), -1) << "not mapped any more";
  RunModel(heap, 500, 1, MixedSize);
  if (wall == behind) munmap(wall, 4096);
}

TEST(Growing, RunsTheModelWithinItsReservation) {
  constexpr size_t kReserve = 32 << 20;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Check::On<Growing<kReserve>> heap;
    RunModel(heap, 1500, seed, MixedSize);
    const size_t used = heap.next().used();
    auto* p = static_cast<char*>(heap.allocate(kReserve - used));
    ASSERT_NE(p, nullptr) << "all that is left";
    EXPECT_EQ(heap.allocate(1), nullptr);
    EXPECT_TRUE(heap.owns(p));
    EXPECT_FALSE(heap.owns(p + kReserve));
    heap.deallocate(p, kReserve - used);
    EXPECT_EQ(heap.next().used(), used);
  }
}

}  // namespace
}  // namespace strata::layers
