// What every interleaving of short programs on a Hoard is run with: a heap of small superblocks,
// bare or under threads' buffers as the preloaded one is, whose locks and atomics are the
// scheduler's (interleave.h), a source that knows Hoard's bound, and what the programs do. Two
// things are broken on purpose, to show that the search finds such mistakes: a free that does not
// look at the owner again once it has the lock, and a search of the shards that does not look at
// the count of puts again.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "hoard_checks.h"
#include "interleave.h"
#include "strata/layers/thread/thread_buffers.h"

namespace strata::layers {

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
  static constexpr size_t heaps = 3;
  static constexpr size_t shards = 2;
  static constexpr size_t spares = 0;
  static constexpr size_t kept = 0;
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
struct Borrowing : Modelled {
  static constexpr size_t borrows_from = 1;
};
struct UncheckedBorrowing : Borrowing {
  using Owner = FirstOwnerSeen;
};
struct Sparing : Modelled {
  static constexpr size_t spares = 1;
};
struct BlindSparing : Sparing {
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

// Memory may be taken only if there was a moment, since the program that takes it began, at which
// the global heap was empty and there was no spare, and never beyond Hoard's bound.
class WatchedSource {
 public:
  static constexpr size_t alignment = kUnit;
  static constexpr bool thread_safe = true;

  void* allocate(size_t size) {
    Interleaver::At(this, true);
    ++held_;
    if (Interleaver::now() >= 0) {
      if (!global_was_empty_) Interleaver::Fail("memory taken beside a superblock");
      if (static_cast<double>(held_) > bound_) Interleaver::Fail("memory taken beyond the bound");
    }
    return aligned_alloc(kUnit, RoundUp(size, kUnit));
  }
  void deallocate(void* p, size_t) {
    Interleaver::At(this, true);
    --held_;
    if (!leaks) free(p);
  }
  static inline bool leaks = false;  // for broken heaps, which still have it on their lists
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

  explicit Scene(size_t heaps = Traits::heaps) : heap_(OptionsFor(heaps), source_) {
    FiberProcessor::outside = 0;
    FiberThread::outside = 0;
    NoteScene();
  }
  ~Scene() { FiberThread::EndAll(); }

  // The programs stand still. A superblock comes to the global heap or the spares when it is
  // counted there, which is what additions are for, and not when it is put on a list.
  void AfterStep() {
    const size_t before = std::exchange(listed_, Listed());
    if (listed_ > before) uncounted_ += listed_ - before;
    uncounted_ -= ModelSync::additions - std::exchange(additions_, ModelSync::additions);
    if (listed_ == uncounted_) source_.NoteEmpty();
  }
  // Where the superblocks are, and how full.
  std::string State() {
    std::string state;
    bare().visit_bins([&](auto& bin, size_t, size_t) {
      state += std::to_string(bin.used) + "/" + std::to_string(bin.capacity) + " ";
    });
    return state;
  }
  std::string Problem() {
    FiberThread::EndAll();
    std::string problem = ProblemOf(bare());
    size_t used = 0;
    bare().visit_bins([&](auto& bin, size_t, size_t) { used += bin.used; });
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
    return [this] { heap_.flush(); };
  }

 private:
  static HoardOptions OptionsFor(size_t heaps) {
    return {.heaps = heaps, .thresholds = {.empty_sixteenths = 2, .slack = 1}};
  }
  auto& bare() {
    if constexpr (kBuffered) {
      return heap_.next();
    } else {
      return heap_;
    }
  }
  size_t Listed() {
    size_t listed = bare().spares();
    bare().visit_bins([&](auto& bin, size_t, size_t) {
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
    if constexpr (kBuffered)
      most += FiberThread::kThreads * (heap_.most_blocks(0) + 1);  // and itself
    const double worth = static_cast<double>(most) / kObjects;
    source_.set_bound(worth / (1 - 1.0 / 8) + static_cast<double>(bare().heaps()));
  }

  WatchedSource source_;
  std::conditional_t<kBuffered, Buffered, Bare> heap_;
  size_t live_ = 0;   // after the programs
  size_t freed_ = 0;  // by them
  // Superblocks of the global heap and spares: on lists, and those of them not counted yet.
  size_t listed_ = 0;
  size_t uncounted_ = 0;
  size_t additions_ = 0;  // so far
  void* taken_[3] = {};
};

// The numbers of schedules are exact: they change when the heap's locks or atomics do.
template <class S>
Exploration ExpectSoundIn(Search search, size_t schedules) {
  Exploration found = Interleaver::Explore<S>(search);
  EXPECT_EQ(found.problem, "") << testing::PrintToString(found.order);
  EXPECT_EQ(found.schedules, schedules);
  return found;
}

// Broken heaps may write anywhere, so they run in a process of their own.
template <class S>
[[noreturn]] void SayWhatIsFound(Search search) {
  WatchedSource::leaks = true;
  const std::string problem = Interleaver::Explore<S>(search).problem;
  fprintf(stderr, "found: %s\n", problem.c_str());
  _exit(problem.empty() ? 1 : 0);
}

}  // namespace strata::layers
