// Every interleaving of short programs on a Hoard: blocks freed while their superblock moves to the
// global heap, is taken from there, or goes back to the system, and a search of the global heap's
// shards while superblocks move between them. Two things are broken on purpose, to show that the
// search finds such mistakes: a free that does not look at the owner again once it has the lock,
// and a search of the shards that does not look at the count of puts again.
#include <vector>

#include "hoard_checks.h"
#include "interleave.h"

namespace strata::layers {
namespace {

constexpr size_t kUnit = 4096;

struct FourInOne {
  static constexpr size_t largest = AlignedRun<kUnit>::kRoom / 4 & ~size_t{15};
  static constexpr size_t count = 1;
  static constexpr size_t of(size_t) { return 0; }
  static constexpr size_t size(size_t) { return largest; }
};

// Who is asking, for fibers: each program begins with its processor, and keeps it.
struct FiberProcessor {
  static inline size_t of_fiber[3] = {};
  static inline size_t outside = 0;
  static size_t index() {
    const int fiber = Interleaver::now();
    return fiber < 0 ? outside : of_fiber[fiber];
  }
};

struct Modelled : HoardTraits<kUnit> {
  static constexpr size_t kHeaps = 3;
  static constexpr size_t kShards = 2;
  static constexpr size_t kSpares = 0;
  using Classes = FourInOne;
  using Which = FiberProcessor;
  using Sync = ModelSync;
};

// Broken: what was read as the owner is not the owner any more once its lock is ours.
struct FirstOwnerSeen {
  template <class S>
  static auto* Lock(S& s) {
    auto* bin = s.owner();
    bin->lock.lock();
    return bin;
  }
};
struct Unchecked : Modelled {
  using Owner = FirstOwnerSeen;
};

// Broken: the count of puts never shows any. Other atomics work.
struct BlindSync : ModelSync {
  template <class T>
  struct Atomic : ModelSync::Atomic<T> {
    using ModelSync::Atomic<T>::Atomic;
  };
};
template <>
struct BlindSync::Atomic<size_t> : ModelSync::Atomic<size_t> {
  using ModelSync::Atomic<size_t>::Atomic;
  size_t load() const {
    const size_t value = ModelSync::Atomic<size_t>::load();
    return value > 0 ? 1 : 0;  // "some", as the shards' numbers need it
  }
};
struct Blind : Modelled {
  using Sync = BlindSync;
};

// Memory may be taken only if the global heap was empty at some moment since the program that takes
// it began.
class WatchedSource {
 public:
  static constexpr size_t alignment = kUnit;
  static constexpr bool thread_safe = true;

  void* allocate(size_t size) {
    const int fiber = Interleaver::now();
    if (fiber >= 0 && !global_was_empty_) Interleaver::Fail("memory taken beside a superblock");
    return aligned_alloc(kUnit, RoundUp(size, kUnit));
  }
  void deallocate(void* p, size_t) { free(p); }
  void NoteEmpty() { global_was_empty_ = true; }

 private:
  bool global_was_empty_ = false;  // while the programs ran
};

// A heap with K = 1 and f = 1/8, and the programs' blocks.
template <class Traits>
class Scene {
 public:
  using H = Stack<Hoard<Traits>, Ref<WatchedSource>>;
  static constexpr size_t kObjects = H::Block::CapacityFor(FourInOne::largest);

  Scene() : heap_(HoardOptions{.thresholds = {.empty_eighths = 1, .slack = 1}}, source_) {
    FiberProcessor::outside = 0;
  }

  void AfterStep() {
    size_t in_global = 0;
    heap_.VisitBins([&](auto& bin, size_t, size_t) { in_global += bin.global ? bin.capacity : 0; });
    if (in_global == 0) source_.NoteEmpty();
  }
  // Where the superblocks are, and how full.
  std::string State() {
    std::string state;
    heap_.VisitBins([&](auto& bin, size_t, size_t) {
      state += std::to_string(bin.used) + "/" + std::to_string(bin.capacity) + " ";
    });
    return state;
  }
  std::string Problem() {
    std::string problem = ProblemOf(heap_);
    size_t used = 0;
    heap_.VisitBins([&](auto& bin, size_t, size_t) { used += bin.used; });
    if (problem.empty() && used != live_) problem = "blocks lost or given twice";
    return problem;
  }

 protected:
  // Outside of the programs: as processor `who`.
  std::vector<void*> TakeAs(size_t who, size_t n) {
    FiberProcessor::outside = who;
    std::vector<void*> blocks(n);
    for (void*& p : blocks) p = heap_.allocate(1);
    live_ += n;
    return blocks;
  }
  void FreeAs(size_t who, void* p) {
    FiberProcessor::outside = who;
    heap_.deallocate(p);
    --live_;
  }
  // Two superblocks of processor `who` with two blocks each: the next free makes it part with one.
  std::vector<void*> AtTheEdge(size_t who) {
    auto blocks = TakeAs(who, 2 * kObjects);
    for (const size_t i : {0, 1, 4, 5}) FreeAs(who, blocks[i]);
    return {blocks[2], blocks[3], blocks[6], blocks[7]};
  }
  // What a program does.
  Interleaver::Program Freeing(size_t fiber, size_t who, void* p) {
    FiberProcessor::of_fiber[fiber] = who;
    --live_;
    return [this, p] { heap_.deallocate(p); };
  }
  Interleaver::Program Taking(size_t fiber, size_t who) {
    FiberProcessor::of_fiber[fiber] = who;
    ++live_;
    return [this, fiber] {
      void*& mine = taken_[fiber];
      mine = heap_.allocate(1);
      for (size_t i = 0; i < 3; ++i) {
        if (i != fiber && taken_[i] == mine) Interleaver::Fail("a block given to two");
      }
    };
  }

 private:
  WatchedSource source_;
  H heap_;
  size_t live_ = 0;
  void* taken_[3] = {};
};

// The first free makes processor 0 part with a superblock, the second is of a block in it.
template <class Traits>
struct FreeWhileItMoves : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    return {this->Freeing(0, 0, blocks[0]), this->Freeing(1, 1, blocks[1])};
  }
};

// And a third takes a block as another processor, which may be from that superblock.
template <class Traits>
struct FreeWhileItMovesOn : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    return {this->Freeing(0, 0, blocks[0]), this->Freeing(1, 1, blocks[1]), this->Taking(2, 2)};
  }
};

// Two free the last two blocks of a superblock in the global heap, a third would like to have it.
template <class Traits>
struct EmptiedWhileItIsTaken : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    this->FreeAs(0, blocks[0]);  // its superblock is in the global heap now
    return {this->Freeing(0, 0, blocks[1]), this->Taking(1, 1), this->Freeing(2, 2, blocks[2])};
  }
};

// All three free blocks of one superblock, two of whom may make its owner part with it.
template <class Traits>
struct ThreeFreeTogether : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    return {this->Freeing(0, 0, blocks[0]), this->Freeing(1, 1, blocks[1]),
            this->Freeing(2, 2, blocks[2])};
  }
};

// Shard 1 has a superblock. While the first program searches shard 0 and then 1, the second takes
// that one and the third puts another into shard 0: there is always one, but not where it looks.
template <class Traits>
struct MovedBehindItsBack : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto of_2 = this->AtTheEdge(2);
    auto of_1 = this->AtTheEdge(1);
    this->FreeAs(1, of_1[0]);
    this->TakeAs(1, 2);  // 1 has no room any more
    return {this->Taking(0, 0), this->Taking(1, 1), this->Freeing(2, 2, of_2[0])};
  }
};

// The numbers of schedules are exact: they change when the heap's locks or atomics do.
template <class S>
Exploration ExpectSoundIn(Search search, size_t schedules) {
  Exploration found = Interleaver::Explore<S>(search);
  EXPECT_EQ(found.problem, "") << testing::PrintToString(found.order);
  EXPECT_EQ(found.schedules, schedules);
  return found;
}

TEST(HoardInterleave, FreeWhileASuperblockMovesOn) {
  ExpectSoundIn<FreeWhileItMovesOn<Modelled>>(Search::kSleepSets, 86);
}
TEST(HoardInterleave, EmptiedWhileItIsTaken) {
  ExpectSoundIn<EmptiedWhileItIsTaken<Modelled>>(Search::kSleepSets, 6);
}
TEST(HoardInterleave, MovedBehindItsBack) {
  ExpectSoundIn<MovedBehindItsBack<Modelled>>(Search::kSleepSets, 18);
}

// Every schedule there is; and sleep sets leave out none that matters.
TEST(HoardInterleave, FreeWhileASuperblockMoves) {
  EXPECT_EQ(ExpectSoundIn<FreeWhileItMoves<Modelled>>(Search::kSleepSets, 4).states,
            ExpectSoundIn<FreeWhileItMoves<Modelled>>(Search::kEverything, 68).states);
}
TEST(HoardInterleave, ThreeFreeTogether) {
  EXPECT_EQ(ExpectSoundIn<ThreeFreeTogether<Modelled>>(Search::kSleepSets, 8).states,
            ExpectSoundIn<ThreeFreeTogether<Modelled>>(Search::kEverything, 44'622).states);
}

// Broken heaps may write anywhere, so they run in a process of their own.
template <class S>
[[noreturn]] void SayWhatIsFound(Search search) {
  const std::string problem = Interleaver::Explore<S>(search).problem;
  fprintf(stderr, "found: %s\n", problem.c_str());
  _exit(problem.empty() ? 1 : 0);
}

TEST(HoardInterleaveDeathTest, FindsAFreeThatTrustsTheFirstOwner) {
  EXPECT_EXIT(SayWhatIsFound<FreeWhileItMoves<Unchecked>>(Search::kEverything),
              testing::ExitedWithCode(0), "found: a ");
  EXPECT_EXIT(SayWhatIsFound<FreeWhileItMoves<Unchecked>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
}
TEST(HoardInterleaveDeathTest, FindsASearchThatTrustsWhatItSaw) {
  EXPECT_EXIT(SayWhatIsFound<MovedBehindItsBack<Blind>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: memory taken beside a superblock");
}

}  // namespace
}  // namespace strata::layers
