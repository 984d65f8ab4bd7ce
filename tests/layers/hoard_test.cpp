// Hoard, one thread playing many processors: where blocks come from and go back to, what it parts
// with and gives back, and a random program against a model with the Check oracle on top.
#include "strata/layers/thread/hoard.h"

#include "heap_model.h"
#include "hoard_checks.h"
#include "strata/layers/source/aligned_mmap.h"
#include "strata/layers/tool/check.h"

namespace strata::layers {
namespace {

constexpr size_t kUnit = 8192;

struct Played : HoardTraits<kUnit> {
  static constexpr size_t heaps = 4;
  static constexpr size_t shards = 2;
  static constexpr size_t spares = 0;
  static constexpr size_t kept = 0;
  using Which = PlayedProcessor;
};
struct Sparing : Played {
  static constexpr size_t spares = 5;
};
struct Keeping : Played {
  static constexpr size_t kept = 2;
};
struct SparingLarge : Played {
  static constexpr size_t large_spares = 2;
};
using Source = CountingSource<kUnit>;
using Heap4 = Stack<Hoard<Played>, Ref<Source>>;

constexpr size_t kSize = 256;
constexpr size_t kObjects = Heap4::Block::CapacityFor(kSize);

template <class H>
std::vector<void*> Take(H& heap, size_t n, size_t size = kSize) {
  std::vector<void*> blocks(n);
  for (void*& p : blocks) {
    p = heap.allocate(size);
    EXPECT_NE(p, nullptr);
  }
  return blocks;
}
template <class H>
void Free(H& heap, const std::vector<void*>& blocks) {
  for (void* p : blocks) heap.deallocate(p);
}
uintptr_t RunOf(const void* p) { return AlignedRun<kUnit>::BaseOf(p); }

class HoardTest : public testing::Test {
 protected:
  HoardTest() { PlayedProcessor::who = 0; }
  ~HoardTest() override { PlayedProcessor::who = 0; }
  Source source;
};

TEST(SuperblockClasses, FitAndGrow) {
  using C = SuperblockClasses<65536>;
  static_assert(SizeClasses<C>);
  for (size_t size = 0; size <= C::largest; ++size) {
    const size_t c = C::of(size);
    ASSERT_LT(c, C::count);
    ASSERT_LE(size, C::size(c));
    if (c > 0) {
      ASSERT_GT(size, C::size(c - 1));
    }
    ASSERT_GE(AlignedRun<65536>::kRoom / C::size(c), 2u);
  }
}

TEST(EmptinessGroups, KnowTheBoundsOfAPart) {
  // Of every capacity: a superblock that is filled and emptied one by one is always on the list of
  // its part.
  using S = Superblock<kUnit, int>;
  alignas(kUnit) static char run[kUnit];
  for (size_t size = 16; size <= SuperblockClasses<kUnit>::largest; size += 16) {
    int owner;
    S& s = *S::Begin(run, 0, size, &owner);
    EmptinessGroups<S> groups;
    groups.Add(s);
    std::vector<void*> objects;
    while (s.used() < s.capacity()) {
      ASSERT_EQ(groups.Fullest(), &s);
      objects.push_back(s.Pop());
      ASSERT_LE(static_cast<char*>(objects.back()) + size, run + kUnit);
      groups.Moved(s);
      ASSERT_EQ(groups.Emptiest(), s.used() == s.capacity() ? nullptr : &s);
    }
    ASSERT_EQ(groups.Any(), &s);
    for (void* p : objects) {
      s.Push(p);
      groups.Moved(s);
      ASSERT_EQ(groups.Fullest(), &s);
    }
    groups.Remove(s);
    ASSERT_EQ(groups.Any(), nullptr);
  }
}

TEST(Superblock, TellsItsObjectsFromPointersIntoThem) {
  using S = Superblock<kUnit, int>;
  alignas(kUnit) static char run[kUnit];
  for (size_t size = 16; size <= SuperblockClasses<kUnit>::largest; size += 16) {
    int owner;
    S& s = *S::Begin(run, 0, size, &owner);
    std::set<const void*> objects;
    while (s.used() < s.capacity()) objects.insert(s.Pop());
    for (const char* p = run; p < run + kUnit; ++p)
      ASSERT_EQ(s.IsObject(p), objects.contains(p)) << size << " at " << p - run;
    s.NoteInside();
    for (const void* object : objects) {
      auto* p = const_cast<char*>(static_cast<const char*>(object));
      ASSERT_EQ(s.StartOf(p), p);
      ASSERT_EQ(s.StartOf(p + size - 1), p);
    }
  }
}

// What a superblock held before does not make blocks of its next class look free.
TEST_F(HoardTest, TakesNoOldContentForAFreedBlock) {
  Stack<Hoard<Sparing>, Ref<Source>> heap(source);
  for (const size_t size : {16, 48, 16, 32, 256, 16})
    Free(heap, Take(heap, 5 * kUnit / size, size));
  ExpectSound(heap);
}

TEST_F(HoardTest, FillsOneSuperblockAfterTheOther) {
  Heap4 heap(source);
  const auto blocks = Take(heap, kObjects + 1);
  for (size_t i = 1; i < kObjects; ++i) EXPECT_EQ(RunOf(blocks[i]), RunOf(blocks[0]));
  EXPECT_NE(RunOf(blocks[kObjects]), RunOf(blocks[0]));
  EXPECT_EQ(source.held(), 2 * kUnit);
  ExpectSound(heap);
}

TEST_F(HoardTest, SendsABlockHomeAndReusesTheNewest) {
  Heap4 heap(source);
  const auto blocks = Take(heap, 3);  // of which one stays
  PlayedProcessor::who = 1;
  void* other = heap.allocate(kSize);
  EXPECT_NE(RunOf(other), RunOf(blocks[0]));
  heap.deallocate(blocks[0]);
  heap.deallocate(blocks[1]);
  EXPECT_NE(RunOf(heap.allocate(kSize)), RunOf(blocks[0]));
  PlayedProcessor::who = 0;
  EXPECT_EQ(heap.allocate(kSize), blocks[1]);
  EXPECT_EQ(heap.allocate(kSize), blocks[0]);
}

TEST_F(HoardTest, PartsWithSuperblocksThatAnotherThenUses) {
  Heap4 heap(source);
  auto blocks = Take(heap, 20 * kObjects);
  // One object stays in each superblock, so none can be given back.
  std::vector<void*> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % kObjects == 0) {
      kept.push_back(blocks[i]);
    } else {
      heap.deallocate(blocks[i]);
    }
  }
  EXPECT_EQ(source.held(), 20 * kUnit);
  ExpectSound(heap);
  PlayedProcessor::who = 1;
  const size_t k = heap.thresholds().slack;
  // All that processor 0 may not keep is there for 1.
  const auto again = Take(heap, (20 - k) * (kObjects - 1));
  EXPECT_EQ(source.held(), 20 * kUnit);
  ExpectSound(heap);
  Free(heap, again);
  Free(heap, kept);
  ExpectSound(heap);
}

TEST_F(HoardTest, GivesEmptySuperblocksBack) {
  Heap4 heap(source);
  for (size_t who = 0; who < 3; ++who) {
    PlayedProcessor::who = who;
    Free(heap, Take(heap, 50 * kObjects));
  }
  EXPECT_EQ(source.held(), 0u);
}

// As many classes as there are, one after the other and then a block of each: what one class no
// longer needs the next one gets, and nothing stays but spares.
TEST_F(HoardTest, EmptySuperblocksChangeClass) {
  using Classes = Sparing::Classes;
  Stack<Hoard<Sparing>, Ref<Source>> heap(source);
  for (size_t c = 0; c < Classes::count; ++c) {
    Free(heap, Take(heap, 4 * Heap4::Block::CapacityFor(Classes::size(c)), Classes::size(c)));
    EXPECT_LE(source.held(), Sparing::spares * kUnit) << c;
  }
  std::vector<void*> one_each;
  for (size_t c = 0; c < Classes::count; ++c) one_each.push_back(heap.allocate(Classes::size(c)));
  EXPECT_EQ(source.held(), Classes::count * kUnit);
  Free(heap, one_each);
  EXPECT_EQ(source.held(), Sparing::spares * kUnit);
}

// What takes and frees one block again and again keeps its superblock, in two classes of each heap.
TEST_F(HoardTest, KeepsAFewEmptySuperblocksInTheirClass) {
  Stack<Hoard<Keeping>, Ref<Source>> heap(source);
  for (const size_t who : {0u, 1u}) {
    PlayedProcessor::who = who;
    for (const size_t size : {16u, 64u, 256u}) Free(heap, Take(heap, 1, size));
    EXPECT_EQ(source.held(), (who + 1) * 2 * kUnit);
    const auto blocks = Take(heap, 1, 16);
    EXPECT_EQ(source.held(), (who + 1) * 2 * kUnit);
    Free(heap, Take(heap, 1, 256));  // has its place now
    EXPECT_EQ(source.held(), ((who + 1) * 2 + 1) * kUnit);
    Free(heap, blocks);
    EXPECT_EQ(source.held(), (who + 1) * 2 * kUnit);
    ExpectSound(heap);
  }
}

TEST_F(HoardTest, EmptiesTheGlobalHeapToo) {
  Heap4 heap(source);
  const auto blocks = Take(heap, 30 * kObjects);
  std::vector<void*> late;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % kObjects == 7) {
      late.push_back(blocks[i]);
    } else {
      heap.deallocate(blocks[i]);
    }
  }
  EXPECT_EQ(source.held(), 30 * kUnit);
  PlayedProcessor::who = 2;
  Free(heap, late);
  EXPECT_EQ(source.held(), 0u);
  ExpectSound(heap);
}

TEST_F(HoardTest, KeepsAsManySparesAsItMay) {
  Stack<Hoard<Sparing>, Ref<Source>> heap(source);
  Free(heap, Take(heap, 50 * kObjects));
  EXPECT_EQ(heap.spares(), 5u);
  EXPECT_EQ(source.held(), 5 * kUnit);
  Take(heap, 1, 16);  // any class may have them
  EXPECT_EQ(heap.spares(), 4u);
}

// Two of each length for each processor, of lengths in quarters of a superblock up to five.
TEST_F(HoardTest, KeepsSparesOfRunsThatAreOneBlock) {
  using H = Stack<Hoard<SparingLarge>, Ref<Source>>;
  constexpr size_t kQuarter = kUnit / 4;
  H heap(source);
  size_t held = 0;
  for (size_t quarters = 3; quarters <= 5; ++quarters) {
    const size_t size = quarters * kQuarter - LargeRun<kUnit>::kOverhead;
    ASSERT_GT(size, H::Classes::largest);
    const auto blocks = Take(heap, 4, size);
    for (void* p : blocks) {
      EXPECT_GE(heap.size_of(p), size);
      memset(p, 1, size);
    }
    EXPECT_EQ(source.held(), held + 4 * quarters * kQuarter);
    Free(heap, blocks);
    held += 2 * quarters * kQuarter;
    EXPECT_EQ(source.held(), held);
    const auto again = Take(heap, 2, size - kQuarter / 2);
    EXPECT_EQ(source.held(), held);  // from the spares
    PlayedProcessor::who = 1;
    Free(heap, again);  // to another's, which the first then takes from
    PlayedProcessor::who = 0;
    const auto other = Take(heap, 2, size);
    EXPECT_EQ(source.held(), held);
    Free(heap, other);
  }
  Free(heap, Take(heap, 3, 5 * kQuarter));
  EXPECT_EQ(source.held(), held);  // longer ones go back at once
}

// In processors' heaps, all of kSize.
size_t OwnSuperblocks(Heap4& heap) {
  size_t own = 0;
  heap.visit_bins([&own](auto& bin, size_t, size_t) {
    if (!bin.global) own += bin.capacity / kObjects;
  });
  return own;
}

TEST_F(HoardTest, ThresholdsAreParameters) {
  for (const size_t slack : {1, 2, 7}) {
    Heap4 heap(HoardOptions{.thresholds = {.slack = slack}}, source);
    const auto blocks = Take(heap, 50 * kObjects);
    std::vector<void*> kept;  // one of each superblock
    for (size_t i = 0; i < blocks.size(); ++i)
      i % kObjects == 0 ? kept.push_back(blocks[i]) : heap.deallocate(blocks[i]);
    EXPECT_EQ(OwnSuperblocks(heap), slack);
    Free(heap, kept);
    EXPECT_EQ(source.held(), 0u);
  }
  for (const uint32_t f : {1u, 2u, 4u, 7u, 8u, 15u}) {
    Heap4 heap(HoardOptions{.thresholds = {.empty_sixteenths = f, .slack = 1}}, source);
    const auto blocks = Take(heap, 80 * kObjects);
    // An f of each superblock, then a little more.
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % kObjects < kObjects * f / 16) heap.deallocate(blocks[i]);
    }
    EXPECT_EQ(OwnSuperblocks(heap), 80u) << f << ": more was given up than must be";
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % kObjects == kObjects * f / 16) heap.deallocate(blocks[i]);
    }
    EXPECT_LT(OwnSuperblocks(heap), 80u) << f;
    ExpectSound(heap);
  }
  // Senseless ones are cut to sense.
  Heap4 heap(HoardOptions{.heaps = 0, .shards = 0, .thresholds = {99, 0}}, source);
  EXPECT_EQ(heap.heaps(), 1u);
  EXPECT_EQ(heap.thresholds().empty_sixteenths, 15u);
  EXPECT_EQ(heap.thresholds().slack, 1u);
  Free(heap, Take(heap, 3 * kObjects));
}

TEST_F(HoardTest, LargeBlocksComeFromBelow) {
  Heap4 heap(source);
  using Classes = Played::Classes;
  ASSERT_NE(heap.allocate(Classes::largest), nullptr);  // keeps the superblock
  for (const size_t size : {Classes::largest, Classes::largest + 1, kUnit, 10 * kUnit + 1}) {
    void* p = heap.allocate(size);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % Heap4::alignment, 0u);
    EXPECT_GE(heap.size_of(p), size);
    EXPECT_LT(heap.size_of(p), size + 4096);
    memset(p, 0x5a, size);
    const bool large = size > Classes::largest;
    const size_t held = source.held();
    PlayedProcessor::who = 3;
    heap.deallocate(p);
    PlayedProcessor::who = 0;
    EXPECT_EQ(source.held() < held, large) << size;
  }
  EXPECT_EQ(heap.allocate(kMaxRequest), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
}

TEST_F(HoardTest, AlignsBlocksToWhateverIsAsked) {
  Heap4 heap(source);
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t align = 1; align <= 64 * kUnit; align *= 2) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{24}, align, 3 * align, kUnit}) {
      void* p = heap.allocate(size, align);
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u) << size;
      ASSERT_GE(heap.size_of(p), std::max<size_t>(size, 1));
      memset(p, 0x77, heap.size_of(p));
      blocks.emplace_back(p, size);
    }
  }
  // Objects in superblocks where some begin inside still come back whole.
  for (int i = 0; i < 200; ++i) blocks.emplace_back(heap.allocate(100), 100);
  for (const auto& [p, size] : blocks) {
    if (size >= 100) {
      memset(p, 1, size);
    }
    heap.deallocate(p);
  }
  ExpectSound(heap);
  EXPECT_EQ(heap.allocate(kMaxRequest, 64), nullptr);
  EXPECT_EQ(heap.allocate(64, size_t{1} << 63), nullptr);
}

TEST(HoardDeathTest, SaysSoWhenABlockIsFreedWrongly) {
  const auto with_heap = [](auto misuse) {
    Source source;
    Heap4 heap(source);
    misuse(heap);
  };
  const char* twice = "strata hoard: a block was freed twice";
  const char* never = "strata hoard: freed twice, or never a block";
  EXPECT_DEATH(with_heap([](Heap4& heap) {
                 const auto blocks = Take(heap, 2, 50);  // of which one keeps the superblock
                 heap.deallocate(blocks[0]);
                 heap.deallocate(blocks[0]);
               }),
               twice);
  // Its superblock is a spare now.
  const auto of_a_spare = [] {
    Source source;
    Stack<Hoard<Sparing>, Ref<Source>> heap(source);
    void* p = heap.allocate(50);
    heap.deallocate(p);
    heap.deallocate(p);
  };
  EXPECT_DEATH(of_a_spare(), never);
  EXPECT_DEATH(with_heap([](Heap4& heap) {
                 const auto blocks = Take(heap, 3, 50);
                 heap.deallocate(blocks[0]);
                 heap.deallocate(blocks[1]);
                 heap.deallocate(blocks[0]);
               }),
               twice);
  EXPECT_DEATH(with_heap([](Heap4& heap) {
                 const auto blocks = Take(heap, 3, 50);
                 void* aligned = heap.allocate(50, 256);
                 heap.allocate(50, 256);
                 heap.deallocate(aligned);
                 heap.deallocate(blocks[0]);
                 heap.deallocate(aligned);
               }),
               twice);
  for (const size_t inside : {1, 8, 16, 40}) {
    EXPECT_DEATH(with_heap([inside](Heap4& heap) {
                   heap.deallocate(static_cast<char*>(heap.allocate(50)) + inside);
                 }),
                 never);
  }
  EXPECT_DEATH(with_heap([](Heap4& heap) {  // the next object, which nobody has
                 heap.deallocate(static_cast<char*>(heap.allocate(64)) + 64);
               }),
               never);
  EXPECT_DEATH(with_heap([](Heap4& heap) {
                 std::vector<char> foreign(4 * kUnit);
                 heap.deallocate(&foreign[2 * kUnit]);
               }),
               never);
}

TEST_F(HoardTest, SaysNoWhenMemoryIsOutAndGoesOn) {
  Heap4 heap(source);
  auto blocks = Take(heap, kObjects);
  source.set_fail(true);
  EXPECT_EQ(heap.allocate(kSize), nullptr);
  EXPECT_EQ(heap.allocate(kUnit), nullptr);
  ExpectSound(heap);
  heap.deallocate(blocks.back());
  EXPECT_EQ(heap.allocate(kSize), blocks.back());
  source.set_fail(false);
  Free(heap, Take(heap, 10));
  Free(heap, blocks);
}

// Processors change under the program, too.
template <class H>
struct WanderingProcessor {
  static constexpr size_t alignment = H::alignment;
  static constexpr bool thread_safe = false;
  H& heap;
  unsigned turn = 0;
  void Turn() { PlayedProcessor::who = (++turn / 7) % 5; }
  void* allocate(size_t size) { return Turn(), heap.allocate(size); }
  void deallocate(void* p, size_t size) { Turn(), heap.deallocate(p, size); }
  void deallocate(void* p) { Turn(), heap.deallocate(p); }
  size_t size_of(void* p) { return heap.size_of(p); }
};

TEST_F(HoardTest, KeepsAModelsBlocksApartAndWhole) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    Stack<Check, Hoard<Played>, Ref<Source>> heap(source);
    WanderingProcessor<decltype(heap)> wandering{heap};
    RunModel(wandering, 6000, seed, MixedSize);
    ExpectSound(layer<Hoard<Played>>(heap));
  }
}

TEST_F(HoardTest, KeepsAModelsBlocksAtEveryThreshold) {
  for (const HoardThresholds t : {HoardThresholds{1, 1}, {2, 1}, {4, 1}, {8, 2}, {14, 8}}) {
    Stack<Check, Hoard<Played>, Ref<Source>> heap(HoardOptions{.shards = 1, .thresholds = t},
                                                  source);
    WanderingProcessor<decltype(heap)> wandering{heap};
    // Three classes only, so that superblocks fill and empty.
    RunModel(wandering, 20'000, 5, [](auto& random) { return size_t{500} << random() % 3; });
    ExpectSound(layer<Hoard<Played>>(heap));
  }
}

TEST_F(HoardTest, WorksOnRealMappingsWithItsDefaults) {
  Stack<Check, Hoard<>, AlignedMmap<65536>> heap;
  RunModel(heap, 10'000, 6, MixedSize);
  ExpectSound(layer<Hoard<>>(heap));
}

TEST(AlignedMmap, AlignsAndGivesAllBack) {
  AlignedMmap<1 << 20> source;
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{3} << 20}) {
    auto* p = static_cast<char*>(source.allocate(size));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (1 << 20), 0u);
    memset(p, 1, size);
    source.deallocate(p, size);
    unsigned char resident;
    EXPECT_EQ(mincore(p, 4096, &resident), -1);
  }
  EXPECT_EQ(source.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(source.allocate(kMaxRequest), nullptr);
}

}  // namespace
}  // namespace strata::layers
