// Threads that read, write, replace, free and make, while rounds without end move everything: each
// object carries who it is and a sum over its bytes. HOT_STRESS_SECONDS says how long (2); `make
// stress` runs it for ten minutes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fake_hot_memory.h"

namespace strata {
namespace {

double StressSeconds() {
  const char* given = getenv("HOT_STRESS_SECONDS");
  return given == nullptr ? 2 : atof(given);
}

struct Object {
  uint64_t number, version, sum;
  uint64_t filler[12];

  void Fill(uint64_t n, uint64_t v) {
    number = n;
    version = v;
    for (uint64_t& f : filler) f = n * 31 + v;
    sum = n ^ v ^ filler[0];
  }
  bool Whole(uint64_t n) const {
    for (const uint64_t f : filler) {
      if (f != filler[0]) return false;
    }
    return number == n && sum == (number ^ version ^ filler[0]) && filler[0] == n * 31 + version;
  }
};

// Half of the guides are changed under a lock of their own, as by a structure with locks; the other
// half are exchanged while others read.
class Stress {
 public:
  static constexpr size_t kGuides = 512;

  void Run(double seconds) {
    for (size_t i = 0; i < kGuides; ++i) Put(i, Make(i, 0));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back([this, t] { Work(static_cast<uint32_t>(t)); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    uint64_t rounds = 0;
    while (std::chrono::steady_clock::now() < until) {
      scene_.Round();
      ++rounds;
      std::this_thread::yield();
    }
    stop_ = true;
    for (std::thread& t : threads) t.join();
    EXPECT_GT(rounds, 5u);
    EXPECT_GT(scene_.collector.counts().moves.load(), 100u);
    for (size_t i = 0; i < kGuides; ++i) {
      const auto* o = static_cast<const Object*>(strata_hot_peek(&guides_[i]));
      EXPECT_TRUE(o == nullptr || o->Whole(i));
      scene_.Drop(&guides_[i]);
    }
    for (int i = 0; i < 6; ++i) scene_.domain.FreeRetired();
    scene_.collector.GiveBackAll();
    EXPECT_EQ(scene_.memory.taken.load(), scene_.memory.given.load());
  }

 private:
  void* Make(size_t i, uint64_t version) {
    auto* o = static_cast<Object*>(scene_.domain.Allocate(sizeof(Object), 16, nullptr));
    o->Fill(i, version);
    return o;
  }
  void Put(size_t i, void* object) { scene_.domain.owners().Own(&guides_[i], object); }

  Object* Get(strata_hot_scope* op, size_t i) {
    return static_cast<Object*>(strata_hot_get_here(op, &guides_[i]));
  }
  // As the program's inline call.
  static void* strata_hot_get_here(strata_hot_scope* op, strata_hot_guide* g) {
    const uint64_t word = __atomic_load_n(&g->word, __ATOMIC_ACQUIRE);
    if ((word & (STRATA_HOT_USED | STRATA_HOT_LOCK)) == op->expected)
      return GuideWord(word).object();
    return HotDomain::GetSlow(op, g);
  }

  void Work(uint32_t seed) {
    std::mt19937 random(seed);
    while (!stop_) {
      // Some are used much, some hardly.
      const size_t i = random() % 4 == 0 ? random() % kGuides : random() % (kGuides / 8);
      if (i % 2 == 0) {
        UnderLock(i, random());
      } else {
        Exchanging(i, random());
      }
    }
  }

  void UnderLock(size_t i, uint32_t random) {
    const std::lock_guard hold(locks_[i]);
    strata_hot_scope op;
    scene_.domain.Enter(&op);
    Object* o = Get(&op, i);
    if (o == nullptr) {
      Put(i, Make(i, random));
    } else {
      EXPECT_TRUE(o->Whole(i));
      if (random % 3 == 0) o->Fill(i, random);
    }
    HotDomain::Leave(&op);
    if (o != nullptr && random % 16 == 1) scene_.Drop(&guides_[i]);
  }

  void Exchanging(size_t i, uint32_t random) {
    strata_hot_scope op;
    scene_.domain.Enter(&op);
    Object* o = Get(&op, i);
    EXPECT_TRUE(o == nullptr || o->Whole(i));
    if (random % 4 == 0) {
      void* next = random % 32 == 0 ? nullptr : Make(i, random);
      if (!scene_.domain.Exchange(&guides_[i], o, next) && next != nullptr)
        scene_.domain.owners().Free(next);
      EXPECT_TRUE(o == nullptr || o->Whole(i));  // ours until the operation ends
    }
    HotDomain::Leave(&op);
  }

  HotScene scene_;
  std::vector<strata_hot_guide> guides_ = std::vector<strata_hot_guide>(kGuides);
  std::vector<std::mutex> locks_ = std::vector<std::mutex>(kGuides);
  std::atomic<bool> stop_{false};
};

TEST(MoveStress, EveryObjectStaysWhole) { Stress().Run(StressSeconds()); }

}  // namespace
}  // namespace strata
