// Threads that allocate, hand on and free at once on LLAMA's heap, small objects and large ones, of
// all lifetimes, while the clock runs and pages change their rungs: what each writes stays as it
// was, and at the end nothing is live. Runs under ThreadSanitizer.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fake_outside.h"

namespace strata {
namespace {

using test::FakeClock;
using test::kMs;

struct Object {
  std::atomic<unsigned char*> p{nullptr};
};

class LifetimeThreads : public testing::Test, protected test::HeapOnFakes<4> {
 protected:
  static constexpr size_t kSlots = 4096;

  static size_t Size(std::mt19937_64& random) {
    const uint64_t kind = random() % 100;
    if (kind < 80) return 16 + random() % 500;
    if (kind < 96) return 16 + random() % 9000;
    return 16 + random() % 400'000;
  }

  // An object begins with its size and a check of it.
  unsigned char* Make(std::mt19937_64& random) {
    const size_t size = Size(random);
    const auto predicted = static_cast<LifetimeClass>(random() % 4);
    auto* p = static_cast<unsigned char*>(Take(size, predicted));
    EXPECT_NE(p, nullptr);
    const uint64_t check = size * 0x9e3779b97f4a7c15u;
    memcpy(p, &size, 8);
    memcpy(p + 8, &check, 8);
    return p;
  }
  void Drop(unsigned char* p) {
    size_t size;
    uint64_t check;
    memcpy(&size, p, 8);
    memcpy(&check, p + 8, 8);
    ASSERT_EQ(check, size * 0x9e3779b97f4a7c15u);
    ASSERT_GE(heap.SizeOf(p), size);
    Free(p);
  }

  std::array<Object, kSlots> slots_;
};

TEST_F(LifetimeThreads, HandObjectsOn) {
  constexpr int kThreads = 4, kSteps = 60'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      test::FakeCpu::mine = static_cast<size_t>(t);
      std::mt19937_64 random(static_cast<uint64_t>(t) + 1);
      for (int i = 0; i < kSteps; ++i) {
        unsigned char* mine = random() % 8 != 0 ? Make(random) : nullptr;
        unsigned char* old = slots_[random() % kSlots].p.exchange(mine, std::memory_order_acq_rel);
        if (old != nullptr) Drop(old);
        if (i % 16 == 0) FakeClock::Advance(kMs);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(heap.Stats().promotions, 0u);
  EXPECT_GT(heap.Stats().recycled_spans, 0u);
  for (Object& slot : slots_) {
    if (unsigned char* p = slot.p.exchange(nullptr)) Drop(p);
  }
  EXPECT_EQ(heap.Stats().live_blocks, 0u);
}

// A producer's spans are emptied by others, while it has them open, closes them and opens them
// again.
TEST_F(LifetimeThreads, ThreadsComeAndGo) {
  for (int round = 0; round < 60; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, round, t] {
        test::FakeCpu::mine = static_cast<size_t>(t / 2);
        std::mt19937_64 random(static_cast<uint64_t>(round * 4 + t) + 100);
        for (int i = 0; i < 400; ++i) {
          unsigned char* mine = Make(random);
          unsigned char* old = slots_[random() % 512].p.exchange(mine, std::memory_order_acq_rel);
          if (old != nullptr) Drop(old);
        }
        FakeClock::Advance(15 * kMs);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (Object& slot : slots_) {
    if (unsigned char* p = slot.p.exchange(nullptr)) Drop(p);
  }
  EXPECT_EQ(heap.Stats().live_blocks, 0u);
}

}  // namespace
}  // namespace strata
