// Every interleaving of short programs on a Hoard: blocks freed while their superblock moves to the
// global heap, is taken from there, or goes back to the system, and a search of the global heap's
// shards while superblocks move between them. Two things are broken on purpose, to show that the
// search finds such mistakes: a free that does not look at the owner again once it has the lock,
// and a search of the shards that does not look at the count of puts again.
#include <array>
#include <utility>
#include <vector>

#include "hoard_checks.h"
#include "interleave.h"
#include "strata/layers/thread_buffers.h"

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

// Threads' buffers, for fibers: a program is a thread, and so is whoever sets the scene.
class FiberThread {
 public:
  static constexpr size_t kThreads = 3;
  static inline size_t outside = 0;

  template <class T>
  static T*& pointer() {
    static T* mine[kThreads] = {};
    forget_ = [] {
      for (T*& p : mine) p = nullptr;
    };
    const int fiber = Interleaver::now();
    return mine[fiber < 0 ? outside : static_cast<size_t>(fiber)];
  }
  struct AtEnd {
    bool Call(void (*end)(void*), void* p) {
      ends_.push_back({end, p});
      return true;
    }
    template <class F>
    void visit_locks(F&&) {}
  };
  static void EndAll() {
    for (const auto& [end, p] : std::exchange(ends_, {})) end(p);
    if (forget_ != nullptr) forget_();
  }

 private:
  static inline std::vector<std::pair<void (*)(void*), void*>> ends_;
  static inline void (*forget_)() = nullptr;
};

// Memory may be taken only if the global heap was empty at some moment since the program that takes
// it began, and never beyond Hoard's bound.
class WatchedSource {
 public:
  static constexpr size_t alignment = kUnit;
  static constexpr bool thread_safe = true;

  void* allocate(size_t size) {
    ++held_;
    if (Interleaver::now() >= 0) {
      if (!global_was_empty_) Interleaver::Fail("memory taken beside a superblock");
      if (static_cast<double>(held_) > bound_) Interleaver::Fail("memory taken beyond the bound");
    }
    return aligned_alloc(kUnit, RoundUp(size, kUnit));
  }
  void deallocate(void* p, size_t) {
    --held_;
    free(p);
  }
  void NoteEmpty() { global_was_empty_ = true; }
  void set_bound(double superblocks) { bound_ = superblocks; }

 private:
  bool global_was_empty_ = false;  // while the programs ran
  size_t held_ = 0;                // superblocks
  double bound_ = 0;
};

// A heap with K = 1 and f = 1/8, buffered as the preloaded one if asked, and the programs' blocks.
template <class Traits, bool kBuffered = false>
class Scene {
  using Bare = Stack<Hoard<Traits>, Ref<WatchedSource>>;
  using Buffered =
      Stack<ThreadBuffers<FourInOne::largest, 1, FiberThread>, Hoard<Traits>, Ref<WatchedSource>>;

 public:
  static constexpr size_t kObjects = Bare::Block::CapacityFor(FourInOne::largest);

  explicit Scene(size_t heaps = Traits::kHeaps) : heap_(OptionsFor(heaps), source_) {
    FiberProcessor::outside = 0;
    FiberThread::outside = 0;
    NoteScene();
  }
  ~Scene() { FiberThread::EndAll(); }

  // The programs stand still. A superblock comes to the global heap when it is counted there, which
  // is what additions are for, and not when it is put on a list.
  void AfterStep() {
    const size_t before = std::exchange(listed_, Listed());
    if (listed_ > before) uncounted_ += listed_ - before;
    uncounted_ -= ModelSync::additions - std::exchange(additions_, ModelSync::additions);
    if (listed_ == uncounted_) source_.NoteEmpty();
  }
  // Where the superblocks are, and how full.
  std::string State() {
    std::string state;
    bare().VisitBins([&](auto& bin, size_t, size_t) {
      state += std::to_string(bin.used) + "/" + std::to_string(bin.capacity) + " ";
    });
    return state;
  }
  std::string Problem() {
    FiberThread::EndAll();
    std::string problem = ProblemOf(bare());
    size_t used = 0;
    bare().VisitBins([&](auto& bin, size_t, size_t) { used += bin.used; });
    if (problem.empty() && used != live_) problem = "blocks lost or given twice";
    return problem;
  }

 protected:
  // Outside of the programs: as processor `who`, whose thread has that number too.
  std::vector<void*> TakeAs(size_t who, size_t n) {
    FiberProcessor::outside = FiberThread::outside = who;
    std::vector<void*> blocks(n);
    for (void*& p : blocks) p = heap_.allocate(1);
    live_ += n;
    NoteScene();
    return blocks;
  }
  void FreeAs(size_t who, void* p) {
    FiberProcessor::outside = FiberThread::outside = who;
    heap_.deallocate(p);
    --live_;
    NoteScene();
  }
  // Two superblocks of processor `who` with two blocks each: the next free makes it part with one.
  std::vector<void*> AtTheEdge(size_t who) {
    auto blocks = TakeAs(who, 2 * kObjects);
    for (const size_t i : {0, 1, 4, 5}) FreeAs(who, blocks[i]);
    return {blocks[2], blocks[3], blocks[6], blocks[7]};
  }
  // What a program does. A block is in use from when its allocation begins to when its free ends:
  // at most all of them at once.
  Interleaver::Program Freeing(size_t fiber, size_t who, void* p) {
    FiberProcessor::of_fiber[fiber] = who;
    --live_;
    ++freed_;
    SetBound();
    return [this, p] { heap_.deallocate(p); };
  }
  Interleaver::Program Taking(size_t fiber, size_t who) {
    FiberProcessor::of_fiber[fiber] = who;
    ++live_;
    SetBound();
    return [this, fiber] {
      void*& mine = taken_[fiber];
      mine = heap_.allocate(1);
      for (size_t i = 0; i < 3; ++i) {
        if (i != fiber && taken_[i] == mine) Interleaver::Fail("a block given to two");
      }
    };
  }
  Interleaver::Program Flushing(size_t fiber, size_t who)
    requires kBuffered
  {
    FiberProcessor::of_fiber[fiber] = who;
    SetBound();
    return [this] { heap_.Flush(); };
  }

 private:
  static HoardOptions OptionsFor(size_t heaps) {
    return {.heaps = heaps, .thresholds = {.empty_eighths = 1, .slack = 1}};
  }
  auto& bare() {
    if constexpr (kBuffered) {
      return heap_.next();
    } else {
      return heap_;
    }
  }
  size_t Listed() {
    size_t listed = 0;
    bare().VisitBins([&](auto& bin, size_t, size_t) {
      if (bin.global) listed += bin.capacity / kObjects;
    });
    return listed;
  }
  void NoteScene() {
    listed_ = Listed();
    additions_ = ModelSync::additions;
  }
  void SetBound() {
    size_t most = live_ + freed_;
    if constexpr (kBuffered) most += FiberThread::kThreads * (heap_.Most(0) + 1);  // and itself
    const double worth = static_cast<double>(most) / kObjects;
    source_.set_bound(worth / (1 - 1.0 / 8) + static_cast<double>(bare().heaps()));
  }

  WatchedSource source_;
  std::conditional_t<kBuffered, Buffered, Bare> heap_;
  size_t live_ = 0;   // after the programs
  size_t freed_ = 0;  // by them
  // Superblocks of the global heap: on lists, and those of them that are not counted yet.
  size_t listed_ = 0;
  size_t uncounted_ = 0;
  size_t additions_ = 0;  // so far
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

// Processor 0 is full, 1 has as much as it may keep, and of a third superblock, in the global heap,
// the only block is freed while 0 takes one: it must not find the superblock nowhere.
template <class Traits>
struct EmptiedWhileAnotherGrows : Scene<Traits> {
  EmptiedWhileAnotherGrows() : Scene<Traits>(2) {}
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(0, this->kObjects);
    auto blocks = this->AtTheEdge(1);
    for (void* p : {blocks[0], blocks[2], blocks[3]}) this->FreeAs(1, p);
    return {this->Taking(0, 0), this->Freeing(1, 1, blocks[1])};
  }
};

// The same with threads' buffers, which hold up to eight blocks and take or give four at once. The
// scenes below begin with a thread 0 that has taken eleven blocks: of superblock A of processor 0,
// where its buffer lies, a[1] to a[3], of B and C all four, the last of which it keeps, and d[0].
template <class Traits>
struct BufferedScene : Scene<Traits, true> {
  using Blocks = std::array<void*, 4>;
  std::array<Blocks, 4> TakeEleven() {
    const auto p = this->TakeAs(0, 11);
    const std::array<Blocks, 4> of{Blocks{nullptr, p[1], p[2], p[3]}, {p[0], p[5], p[6], p[7]},
                                   {p[4], p[9], p[10], nullptr}, {p[8], nullptr, nullptr, nullptr}};
    for (const Blocks& blocks : of) {
      for (const void* block : blocks) {
        EXPECT_TRUE(block == nullptr || RunOf(block) == RunOf(blocks[0] ? blocks[0] : blocks[1]));
      }
    }
    return of;
  }
  static uintptr_t RunOf(const void* p) { return AlignedRun<kUnit>::BaseOf(p); }
};

// Thread 0's free makes its buffer give four blocks, of C and B, and its processor part with D while
// the second thread frees D's only block and the third takes blocks.
template <class Traits>
struct BufferGivesWhileItMoves : BufferedScene<Traits> {
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(1, 1);
    this->TakeAs(2, 4);  // keeps none
    const auto [a, b, c, d] = this->TakeEleven();
    for (void* p : {a[1], a[2], a[3], b[1], b[2], c[1]}) this->FreeAs(0, p);
    return {this->Freeing(0, 0, c[2]), this->Freeing(1, 1, d[0]), this->Taking(2, 2)};
  }
};

// D is in the global heap, but for its only block, which thread 0 keeps. It gives that home while
// the second thread takes blocks and the third frees one of C.
template <class Traits>
struct KeptWhileItMoves : BufferedScene<Traits> {
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(2, 1);
    this->TakeAs(1, 4);
    const auto [a, b, c, d] = this->TakeEleven();
    for (void* p : {d[0], a[1], a[2], b[1], a[3], c[1], c[2]}) this->FreeAs(0, p);
    return {this->Flushing(0, 0), this->Taking(1, 1), this->Freeing(2, 2, c[0])};
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
  ExpectSoundIn<FreeWhileItMovesOn<Modelled>>(Search::kSleepSets, 62);
}
TEST(HoardInterleave, EmptiedWhileAnotherGrows) {
  ExpectSoundIn<EmptiedWhileAnotherGrows<Modelled>>(Search::kEverything, 784);
}
TEST(HoardInterleave, BufferGivesWhileASuperblockMoves) {
  ExpectSoundIn<BufferGivesWhileItMoves<Modelled>>(Search::kSleepSets, 50);
}
TEST(HoardInterleave, BlockIsKeptWhileItsSuperblockMoves) {
  ExpectSoundIn<KeptWhileItMoves<Modelled>>(Search::kSleepSets, 39);
}
TEST(HoardInterleave, EmptiedWhileItIsTaken) {
  ExpectSoundIn<EmptiedWhileItIsTaken<Modelled>>(Search::kSleepSets, 4);
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
TEST(HoardInterleaveDeathTest, FindsABufferThatTrustsTheFirstOwner) {
  EXPECT_EXIT(SayWhatIsFound<BufferGivesWhileItMoves<Unchecked>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
  EXPECT_EXIT(SayWhatIsFound<KeptWhileItMoves<Unchecked>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
}
TEST(HoardInterleaveDeathTest, FindsASearchThatTrustsWhatItSaw) {
  EXPECT_EXIT(SayWhatIsFound<MovedBehindItsBack<Blind>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: memory taken beside a superblock");
}

}  // namespace
}  // namespace strata::layers
