// The sampler under threads: each owns blocks on pages it shares with the others, frees, moves and
// looks up; one changes the interval and one reads everything.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "sample_fixture.h"

namespace strata {
namespace {

using test::SampledHeap;

TEST(SamplerThreads, EveryThreadFindsItsOwnSamples) {
  constexpr int kThreads = 4;
  constexpr int kSteps = 20'000;
  SampledHeap heap(1);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> taken{0};
  const auto work = [&](uint32_t number) {
    std::mt19937_64 random(number);
    std::vector<bool> mine(600);
    // Neighbouring blocks belong to different threads.
    const auto at = [&](size_t i) { return SampledHeap::kBase + (i * kThreads + number) * 32; };
    const auto event = [&](size_t i) {
      return SampleEvent{at(i), random() % 1'000'000, number, 0};
    };
    for (int step = 0; step < kSteps; ++step) {
      const size_t i = random() % mine.size(), j = random() % mine.size();
      const uintptr_t stack[] = {random() % 50, number};
      if (!mine[i]) {
        ASSERT_FALSE(heap.sampler.Remove(event(i)));
        ASSERT_TRUE(heap.sampler.Add(event(i), 64, 1, stack, 2));
        taken.fetch_add(1, std::memory_order_relaxed);
        mine[i] = true;
      } else if (random() % 3 == 0 && !mine[j]) {
        ASSERT_TRUE(heap.sampler.Move(at(i), at(j), 128, 0.1));
        mine[i] = false;
        mine[j] = true;
      } else {
        ASSERT_TRUE(heap.sampler.MayHold(at(i)));
        ASSERT_TRUE(heap.IsFlagged(at(i)));
        ASSERT_TRUE(heap.sampler.Remove(event(i)));
        mine[i] = false;
      }
    }
    for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(heap.sampler.Remove(event(i)), mine[i]);
  };
  std::thread reader([&] {
    while (!done.load()) {
      size_t live = 0;
      heap.sampler.VisitLive([&](const LiveSample& s) { live += s.size != 0; });
      heap.sampler.VisitRows(
          [&](const SampleRow& row, const SampleSums&) { live += row.context->depth; });
      heap.sampler.SetInterval(live % 1000);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
  done = true;
  reader.join();
  const SamplerStats s = heap.sampler.Stats();
  EXPECT_EQ(s.live_samples, 0u);
  EXPECT_EQ(s.samples, taken.load());
  EXPECT_EQ(s.dropped, 0u);
  for (size_t page = 0; page < 16; ++page)
    EXPECT_FALSE(heap.IsFlagged(SampledHeap::kBase + page * kPageSize));
}

}  // namespace
}  // namespace strata
