// Histories of three threads on each of CrestDB's ten structures, with values that stay and with
// values that move all the while, checked for linearizability key by key (history.h). Of a scan,
// what it says about each key is an operation on this key; the scan as a whole is not one moment.
//
// The keys that are recorded lie among others that come and go, so that nodes split, grow, run
// empty and leave the structure between and under them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "any_index.h"
#include "effort.h"
#include "history.h"
#include "key_kinds.h"

namespace crest {
namespace {

constexpr unsigned kThreads = 3;
constexpr unsigned kKeys = 5;
constexpr unsigned kOthers = 120;

// A number many times over: one that was copied while it was written to shows.
std::string ValueOf(uint64_t number) {
  std::string value;
  for (uint64_t i = 0; i < 2 + number % 20; ++i)
    value.append(reinterpret_cast<const char*>(&number), sizeof number);
  return value;
}
// kNone if it is no such value.
uint64_t NumberOf(ValueView value) {
  uint64_t number = HistoryEvent::kNone;
  if (value.size >= sizeof number) std::memcpy(&number, value.data, sizeof number);
  const bool whole = std::string_view(value.data, value.size) == ValueOf(number);
  EXPECT_TRUE(whole);
  return whole ? number : HistoryEvent::kNone;
}

class Linearizability : public testing::TestWithParam<IndexKind> {
 protected:
  using Events = std::vector<std::vector<HistoryEvent>>;  // by key

  // One thread's part of a history.
  struct Actor {
    Linearizability& test;
    unsigned id;
    std::mt19937_64 random;
    uint64_t written = 0;
    Events events = Events(kKeys);

    void Run(int rounds) {
      test.started_.fetch_add(1);
      while (test.started_.load() < kThreads) std::this_thread::yield();
      for (int i = 0; i < rounds; ++i) {
        Disturb();
        Record();
      }
    }
    void Disturb() {
      AnyIndex::Scope scope(*test.index_);
      const std::string key = test.make_(random() % kOthers + kKeys, 1);
      if (random() % 2 == 0) {
        EXPECT_TRUE(scope.Put(key, "other"));
      } else {
        scope.Remove(key);
      }
    }
    void Record() {
      const unsigned key = random() % kKeys;
      const unsigned action = random() % 16;
      if (action == 0 && test.index_->ordered()) return Scan();
      AnyIndex::Scope scope(*test.index_);
      const uint64_t began = test.now_.fetch_add(1);
      HistoryEvent event{began, 0, HistoryEvent::Kind::kGet, HistoryEvent::kNone};
      if (action < 6) {
        scope.Get(test.keys_[key], [&](ValueView value) { event.value = NumberOf(value); });
      } else if (action < 12) {
        event.kind = HistoryEvent::Kind::kPut;
        event.value = ++written * kThreads + id;
        EXPECT_TRUE(scope.Put(test.keys_[key], ValueOf(event.value)));
      } else {
        event.kind = HistoryEvent::Kind::kRemove;
        event.value = scope.Remove(test.keys_[key]) ? 1 : HistoryEvent::kNone;
      }
      event.ended = test.now_.fetch_add(1);
      events[key].push_back(event);
    }
    void Scan() {
      AnyIndex::Scope scope(*test.index_);
      std::vector<uint64_t> seen(kKeys, HistoryEvent::kNone);
      const uint64_t began = test.now_.fetch_add(1);
      scope.Scan("", 2 * kOthers, [&](std::string_view key, ValueView value) {
        const auto at = std::ranges::find(test.keys_, key);
        if (at != test.keys_.end()) seen[at - test.keys_.begin()] = NumberOf(value);
      });
      const uint64_t ended = test.now_.fetch_add(1);
      for (unsigned key = 0; key < kKeys; ++key)
        events[key].push_back({began, ended, HistoryEvent::Kind::kGet, seen[key]});
    }
  };

  void RunAndCheck(MakeKey make, uint64_t seed) {
    index_ = GetParam().make();
    started_ = 0;
    make_ = make;
    keys_.clear();
    for (unsigned key = 0; key < kKeys; ++key) keys_.push_back(make(key, 0));
    std::vector<Actor> actors;
    for (unsigned id = 0; id < kThreads; ++id)
      actors.push_back({*this, id, std::mt19937_64(seed + id)});
    {
      const auto mover = index_->Move();
      std::vector<std::thread> threads;
      for (Actor& actor : actors) threads.emplace_back([&actor] { actor.Run(600); });
      for (std::thread& thread : threads) thread.join();
    }
    index_.reset();
    for (unsigned key = 0; key < kKeys; ++key) {
      KeyHistory history;
      for (Actor& actor : actors) history.push_back(std::move(actor.events[key]));
      EXPECT_TRUE(IsLinearizable(history)) << "key " << key << ", seed " << seed;
    }
  }

  std::unique_ptr<AnyIndex> index_;
  MakeKey make_ = nullptr;
  std::vector<std::string> keys_;
  std::atomic<uint64_t> now_{1};
  std::atomic<unsigned> started_{0};
};
INSTANTIATE_TEST_SUITE_P(Tables, Linearizability, testing::ValuesIn(Tables()), kNameOfKind);
INSTANTIATE_TEST_SUITE_P(Trees, Linearizability, testing::ValuesIn(Trees()), kNameOfKind);

TEST_P(Linearizability, OfRecordedHistories) {
  uint64_t seed = 1;
  for (const MakeKey make : kKeyKinds) {
    for (int round = 0; round < kEffort; ++round) RunAndCheck(make, seed += kThreads);
  }
}

}  // namespace
}  // namespace crest
