// Hoard's bound while threads run at the same time, bare and under threads' buffers, as it is
// preloaded. The inequality is hoard_bound_test.cpp's, with what the proof in hoard_global.h needs
// said of "in use": a block counts from when its allocation begins to when its free has ended. To
// the heap below a buffer is a part of the program, so what buffers may keep is added to U.
#include <random>
#include <thread>
#include <vector>

#include "hoard_checks.h"
#include "strata/layers/thread/thread_buffers.h"

namespace strata::layers {
namespace {

constexpr size_t kUnit = 8192;
constexpr unsigned kThreads = 4;
using Classes = SuperblockClasses<kUnit>;
using Source = CountingSource<kUnit>;

struct Played : HoardTraits<kUnit> {
  static constexpr size_t heaps = 3;
  static constexpr size_t shards = 2;
  static constexpr size_t spares = 2;
  using Which = PlayedProcessor;
};
struct PlayedBorrowing : Played {
  static constexpr size_t borrows_from = 1;
};
struct PlayedUnderBuffers : PlayedBorrowing {};  // a type has one buffered heap
using Bare = Stack<Hoard<Played>, Ref<Source>>;
using Borrowing = Stack<Hoard<PlayedBorrowing>, Ref<Source>>;
using Buffered = Stack<ThreadBuffers<1024, 1024>, Hoard<PlayedUnderBuffers>, Ref<Source>>;

// What buffers may have of a class that the program has used or not: the blocks in them, and the
// buffers themselves, which are blocks too.
template <class H>
size_t MayKeep(const H&, size_t, bool) {
  return 0;
}
constexpr size_t kBufferClass = [] {
  size_t bytes = Buffered::most_bytes();
  for (size_t c = 0; c <= Classes::of(1024); ++c)
    bytes -= Buffered::most_blocks(c) * Classes::size(c);
  return Classes::of(bytes);
}();
size_t MayKeep(const Buffered&, size_t c, bool used) {
  size_t blocks = c == kBufferClass ? 1 : 0;
  if (used && c <= Classes::of(1024)) blocks += Buffered::most_blocks(c);
  return blocks * kThreads;
}
template <class H>
H& HoardOf(H& heap) {
  return heap;
}
auto& HoardOf(Buffered& heap) { return heap.next(); }

template <class H>
class Watched {
 public:
  explicit Watched(const HoardThresholds& t) : heap_(HoardOptions{.thresholds = t}, source_) {}

  void* Take(size_t size) {
    const size_t c = Classes::of(size);
    const size_t now = live_[c].fetch_add(1) + 1;
    size_t most = most_[c].load();
    while (most < now && !most_[c].compare_exchange_weak(most, now)) {
    }
    void* p = heap_.allocate(size);
    EXPECT_NE(p, nullptr);
    Check();
    return p;
  }
  void Give(void* p, size_t size) {
    heap_.deallocate(p);
    live_[Classes::of(size)].fetch_sub(1);
    Check();
  }
  H& heap() { return heap_; }

 private:
  // What is held is looked at before the U that bounds it, which only grows.
  void Check() {
    const auto held = static_cast<double>(source_.held());
    const auto& hoard = HoardOf(heap_);
    const double f = hoard.thresholds().empty_sixteenths / 16.0;
    const auto k = static_cast<double>(hoard.thresholds().slack);
    double superblocks = 0;
    for (size_t c = 0; c < Classes::count; ++c) {
      size_t most = most_[c].load();
      most += MayKeep(heap_, c, most != 0);
      if (most == 0) continue;
      const double worth = static_cast<double>(most) / Bare::Block::CapacityFor(Classes::size(c));
      superblocks += worth / (1 - f) + static_cast<double>(hoard.heaps()) * k;
    }
    if (held > superblocks * kUnit) ADD_FAILURE() << held << " above " << superblocks * kUnit;
  }

  Source source_;
  H heap_;
  std::atomic<size_t> live_[Classes::count] = {};
  std::atomic<size_t> most_[Classes::count] = {};
};

struct Block {
  void* p;
  size_t size;
};

// Each thread's pile grows and shrinks, out of step with the others'; a part of what a thread frees
// it has from another, and now and then it runs on another processor.
template <class H>
void SwingingPiles(Watched<H>& watched) {
  constexpr size_t kBoxes = 32, kMost = 400;
  std::atomic<Block*> boxes[kBoxes] = {};
  const auto put = [&](Block* b, size_t at) { return boxes[at % kBoxes].exchange(b); };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      PlayedProcessor::who = t;
      std::mt19937 random(t + 1);
      std::vector<Block> pile;
      for (int i = 0; i < 60'000; ++i) {
        const bool growing = (i / kMost + t) % 2 == 0;
        if (pile.size() < (growing ? kMost : 1)) {
          const size_t size = size_t{40} << random() % 3;
          pile.push_back({watched.Take(size), size});
        } else {
          Block b = pile.back();
          pile.pop_back();
          if (random() % 4 == 0) {
            Block* other = put(new Block(b), random());
            if (other == nullptr) continue;
            b = *other;
            delete other;
          }
          watched.Give(b.p, b.size);
        }
        if (random() % 1000 == 0) PlayedProcessor::who = random();
      }
      for (const Block& b : pile) watched.Give(b.p, b.size);
    });
  }
  for (auto& t : threads) t.join();
  for (auto& box : boxes) {
    if (Block* b = box.load()) {
      watched.Give(b->p, b->size);
      delete b;
    }
  }
}

// The least bound there is.
constexpr HoardThresholds kTight{.empty_sixteenths = 1, .slack = 1};
constexpr HoardThresholds kUsual{};

TEST(HoardBoundThreads, HoldsWhileThreadsRun) {
  for (const HoardThresholds& t : {kTight, kUsual}) {
    Watched<Bare> watched(t);
    SwingingPiles(watched);
    ExpectSound(watched.heap());
  }
}

TEST(HoardBoundThreads, HoldsWhileHeapsBorrow) {
  for (const HoardThresholds& t : {kTight, kUsual}) {
    Watched<Borrowing> watched(t);
    SwingingPiles(watched);
    ExpectSound(watched.heap());
  }
}

TEST(HoardBoundThreads, HoldsUnderBuffers) {
  for (const HoardThresholds& t : {kTight, kUsual}) {
    Watched<Buffered> watched(t);
    SwingingPiles(watched);
    watched.heap().flush();
    ExpectSound(watched.heap().next());
  }
}

}  // namespace
}  // namespace strata::layers
