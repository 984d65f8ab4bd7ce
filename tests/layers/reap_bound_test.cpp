// How much a reap holds in long-running loads, in which a pure region grows without bound: at most
// 1.2 times what is live and one chunk. Where what is live swings, no allocator that leaves objects
// in place can keep near it; there a reap is held against Lea's best fit under the same load.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "knowing_source.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/source/mmap.h"

namespace strata::layers {
namespace {

constexpr size_t kChunk = 128 << 10;
using PlainReap = Stack<Reap<(8 << 10), kChunk>, Mmap>;
using ProcessReap = Stack<Reap<(8 << 10), kChunk>, KnowingMmap>;
using Lea = Stack<Coalesce<kChunk>, Mmap>;

// The objects of a load: slots that hold a block or none.
template <class H>
class Objects {
 public:
  // The first `settling` steps are not judged.
  explicit Objects(size_t slots, size_t settling = 20'000) : slots_(slots), settling_(settling) {}

  size_t Random(size_t below) { return random_() % below; }
  size_t Any() { return Random(slots_.size()); }
  bool Has(size_t at) const { return slots_[at].p != nullptr; }
  size_t SizeOf(size_t at) const { return slots_[at].size; }
  void Put(size_t at, size_t size) {
    Drop(at);
    void* p = heap_.allocate(size);
    ASSERT_NE(p, nullptr);
    slots_[at] = {p, size};
    live_ += size;
    Look();
  }
  void Drop(size_t at) {
    if (!Has(at)) return;
    heap_.deallocate(slots_[at].p);
    live_ -= slots_[at].size;
    slots_[at] = {};
    Look();
  }
  void Grow(size_t at, size_t size) {
    if (heap_.resize(slots_[at].p, size)) {
      live_ += size - slots_[at].size;
      slots_[at].size = size;
      return Look();
    }
    const Block old = std::exchange(slots_[at], Block{});
    live_ -= old.size;  // as the program sees it: it has one block all the time
    Put(at, size);
    heap_.deallocate(old.p);
  }
  void AddSlot() { slots_.emplace_back(); }
  size_t count() const { return slots_.size(); }

  // Of what was held, less one chunk, over what was live.
  double worst() const { return worst_; }
  size_t most_held() const { return most_held_; }

 private:
  struct Block {
    void* p = nullptr;
    size_t size = 0;
  };
  void Look() {
    most_held_ = std::max(most_held_, heap_.held());
    if (++steps_ <= settling_ || heap_.held() <= kChunk) return;
    const auto over = static_cast<double>(heap_.held() - kChunk);
    worst_ = std::max(worst_, over / static_cast<double>(live_));
  }

  H heap_;
  std::vector<Block> slots_;
  std::mt19937 random_{1};
  size_t settling_, steps_ = 0, live_ = 0, most_held_ = 0;
  double worst_ = 0;
};

constexpr size_t kSteps = 300'000;

template <class H>
class ReapBound : public testing::Test {};
using Reaps = testing::Types<PlainReap, ProcessReap>;
TYPED_TEST_SUITE(ReapBound, Reaps);

TYPED_TEST(ReapBound, HoldsForRandomLifetimes) {
  Objects<TypeParam> load(3000);
  for (size_t i = 0; i < kSteps; ++i) load.Put(load.Any(), 16 + load.Random(500));
  EXPECT_LE(load.worst(), 1.2);
}

TYPED_TEST(ReapBound, HoldsForSizesThatDrift) {
  Objects<TypeParam> load(3000);
  for (size_t i = 0; i < 2 * kSteps; ++i)
    load.Put(load.Any(), 16 + load.Random(500) + i / (kSteps / 2) * 333);
  EXPECT_LE(load.worst(), 1.2);
}

TYPED_TEST(ReapBound, HoldsWhileTheNumberOfObjectsGrows) {
  Objects<TypeParam> load(500);
  for (size_t i = 0; i < kSteps; ++i) {
    if (i % 50 == 0) load.AddSlot();
    load.Put(load.Any(), 16 + load.Random(800));
  }
  EXPECT_LE(load.worst(), 1.2);
}

// What a producer hands a consumer goes in the order in which it came.
TYPED_TEST(ReapBound, HoldsForAQueue) {
  Objects<TypeParam> load(3000);
  for (size_t i = 0; i < kSteps; ++i) load.Put(i % 3000, 16 + load.Random(1000));
  EXPECT_LE(load.worst(), 1.2);
}

// Some of what is handed over stays, and pins what lay around it.
TYPED_TEST(ReapBound, HoldsForAQueueOfWhichSomeStay) {
  Objects<TypeParam> load(5000);
  for (size_t i = 0; i < kSteps; ++i) {
    const bool stays = load.Random(50) == 0;
    load.Put(stays ? 3000 + load.Random(2000) : i % 3000, 16 + load.Random(1000));
  }
  EXPECT_LE(load.worst(), 1.2);
}

// Queues between several pairs, whose lengths differ by a factor of a hundred.
TYPED_TEST(ReapBound, HoldsForQueuesOfDifferentLengths) {
  Objects<TypeParam> load(20 + 200 + 2000);
  for (size_t i = 0; i < kSteps; ++i) {
    load.Put(i % 20, 16 + load.Random(300));
    load.Put(20 + i % 200, 16 + load.Random(600));
    load.Put(220 + i % 2000, 16 + load.Random(900));
  }
  EXPECT_LE(load.worst(), 1.2);
}

// A load that only frees, and leaves one block in each chunk to the end. At each moment the reap
// holds but what is used and a quarter and a chunk, or the chunks in which something is live, and
// the newest.
enum class Order { kOldestFirst, kNewestFirst };
template <class H>
void LeaveOneBlockInEachChunk(Order order) {
  H heap;
  std::vector<std::vector<void*>> chunks;  // the blocks of each
  while (heap.held() < (10u << 20)) {
    const size_t held = heap.held();
    void* p = heap.allocate(300);
    ASSERT_NE(p, nullptr);
    if (heap.held() != held) chunks.emplace_back();
    chunks.back().push_back(p);
  }
  size_t chunks_live = chunks.size();
  const auto free = [&](std::vector<void*>& chunk) {
    heap.deallocate(chunk.back());
    chunk.pop_back();
    if (chunk.empty()) --chunks_live;
    const size_t may_hold = std::max(heap.used() * 5 / 4, chunks_live * kChunk) + kChunk;
    return heap.held() <= may_hold;
  };
  if (order == Order::kNewestFirst) std::reverse(chunks.begin(), chunks.end());
  for (auto& chunk : chunks) {
    while (chunk.size() > 1) ASSERT_TRUE(free(chunk)) << heap.held() << ", " << heap.used();
  }
  for (auto& chunk : chunks)
    ASSERT_TRUE(free(chunk)) << heap.held() << " for " << heap.used() << " in " << chunks_live;
  EXPECT_EQ(heap.used(), 0u);
}
TYPED_TEST(ReapBound, LeftoversKeepNoOtherChunk) {
  LeaveOneBlockInEachChunk<TypeParam>(Order::kOldestFirst);
  LeaveOneBlockInEachChunk<TypeParam>(Order::kNewestFirst);
}

// Loads under which what is live swings.
template <class H>
size_t HeldForASawtooth() {  // sizes that rise from 32 bytes to 2 KiB, again and again
  Objects<H> load(3000);
  for (size_t i = 0; i < kSteps; ++i) load.Put(load.Any(), 32 + i % 20'000 / 10);
  return load.most_held();
}
template <class H>
size_t HeldForAQueueOfASawtooth() {
  Objects<H> load(3000);
  for (size_t i = 0; i < kSteps; ++i) load.Put(i % 3000, 32 + i % 20'000 / 10);
  return load.most_held();
}
template <class H>
size_t HeldForPhases() {  // of one size each
  Objects<H> load(6000);
  for (size_t i = 0; i < kSteps; ++i) load.Put(load.Any(), i / 15'000 % 2 == 0 ? 144 : 208);
  return load.most_held();
}
template <class H>
size_t HeldForBuffersThatGrow() {  // from 16 bytes to 4 KiB, then anew
  Objects<H> load(1500);
  for (size_t i = 0; i < kSteps; ++i) {
    const size_t at = load.Any();
    if (!load.Has(at)) {
      load.Put(at, 16);
    } else if (load.SizeOf(at) >= 4096 || load.Random(12) == 0) {
      load.Drop(at);
    } else {
      load.Grow(at, load.SizeOf(at) * 3 / 2 + load.Random(64));
    }
  }
  return load.most_held();
}
template <class H>
size_t HeldForAMixture() {  // as many of each octave, from 16 bytes to 4 KiB
  Objects<H> load(3000);
  for (size_t i = 0; i < kSteps; ++i) {
    const size_t octave = load.Random(8);
    load.Put(load.Any(), (size_t{16} << octave) + load.Random(size_t{16} << octave));
  }
  return load.most_held();
}

template <class H>
struct SwingOf {
  static constexpr size_t (*kLoads[])() = {HeldForASawtooth<H>, HeldForAQueueOfASawtooth<H>,
                                           HeldForPhases<H>, HeldForBuffersThatGrow<H>,
                                           HeldForAMixture<H>};
};
constexpr const char* kLoadNames[] = {"Sawtooth", "QueueOfASawtooth", "Phases", "BuffersThatGrow",
                                      "Mixture"};
class ReapSwing : public testing::TestWithParam<size_t> {};
TEST_P(ReapSwing, HoldsNoMoreThanLeasBestFit) {
  const size_t lea = SwingOf<Lea>::kLoads[GetParam()]();
  EXPECT_LE(SwingOf<PlainReap>::kLoads[GetParam()](), lea + lea / 20 + kChunk);
  EXPECT_LE(SwingOf<ProcessReap>::kLoads[GetParam()](), lea + lea / 20 + kChunk);
}
INSTANTIATE_TEST_SUITE_P(Loads, ReapSwing, testing::Range(size_t{0}, std::size(kLoadNames)),
                         [](const auto& load) { return std::string(kLoadNames[load.param]); });

}  // namespace
}  // namespace strata::layers
