// The hash tables and skip lists of CrestDB against std::map, with values that stay and values that
// move: alone, and with threads that write keys of their own among each other's. The trees have the
// same in trees_*_test.cpp.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "any_index.h"
#include "key_kinds.h"

namespace crest {
namespace {

using Model = std::map<std::string, std::string>;

class TablesModel : public testing::TestWithParam<IndexKind> {
 public:
  bool Put(const std::string& key, const std::string& value) {
    AnyIndex::Scope scope(*index_);
    return scope.Put(key, value);
  }
  bool Remove(const std::string& key) {
    AnyIndex::Scope scope(*index_);
    return scope.Remove(key);
  }
  // "none" without one.
  std::string Get(const std::string& key) {
    AnyIndex::Scope scope(*index_);
    std::string seen = "none";
    scope.Get(key, [&](ValueView v) { seen.assign(v.data, v.size); });
    return seen;
  }
  // Exactly these keys and values are there, and in order where there is one.
  void ExpectAll(const Model& model) {
    size_t count = 0;
    index_->ForEach([&](std::string_view key, const void* value) {
      ++count;
      EXPECT_TRUE(value != nullptr);
      EXPECT_TRUE(model.contains(std::string(key)));
    });
    EXPECT_EQ(count, model.size());
    for (const auto& [key, value] : model) ASSERT_EQ(Get(key), value);
    ExpectScan(model, "", model.size() + 1);
  }
  void ExpectScan(const Model& model, const std::string& from, size_t limit) {
    if (!index_->ordered()) return;
    AnyIndex::Scope scope(*index_);
    std::vector<std::pair<std::string, std::string>> seen, expected;
    const size_t count = scope.Scan(from, limit, [&](std::string_view key, ValueView v) {
      seen.emplace_back(key, std::string(v.data, v.size));
    });
    for (auto it = model.lower_bound(from); it != model.end() && expected.size() < limit; ++it)
      expected.emplace_back(*it);
    ASSERT_EQ(count, seen.size());
    ASSERT_EQ(seen, expected);
  }

 protected:
  const std::unique_ptr<AnyIndex> index_ = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(All, TablesModel, testing::ValuesIn(Tables()), kNameOfKind);

TEST_P(TablesModel, RandomOperations) {
  std::mt19937_64 random(7);
  Model model;
  for (const MakeKey make : kKeyKinds) {
    // Fills, then drains, twice.
    for (int i = 0; i < 8000; ++i) {
      const std::string key = make(random() % 700, random() % 3);
      const unsigned puts = i / 2000 % 2 == 0 ? 11 : 3;
      const unsigned action = random() % 16;
      if (key.empty()) continue;
      if (action < puts) {
        const std::string value(random() % 300, static_cast<char>('a' + random() % 26));
        ASSERT_TRUE(Put(key, value));
        model[key] = value;
      } else if (action < 14) {
        ASSERT_EQ(Remove(key), model.erase(key) != 0);
      } else if (action == 14) {
        ASSERT_EQ(Get(key), model.contains(key) ? model[key] : "none");
      } else {
        ExpectScan(model, key, random() % 50);
      }
    }
    ExpectAll(model);
    if (HasFatalFailure()) return;
  }
}

TEST_P(TablesModel, KeysAndValuesOfEverySize) {
  Model model;
  for (size_t size = 1; size <= 255; ++size) model[std::string(size, 'k')] = std::string(size, 'v');
  for (const size_t size : {size_t{0}, size_t{4096}, size_t{1} << 20})
    model["value" + std::to_string(size)] = std::string(size, 'v');
  for (const auto& [key, value] : model) ASSERT_TRUE(Put(key, value));
  ExpectAll(model);
  for (const auto& [key, value] : model) ASSERT_TRUE(Remove(key));
  ExpectAll({});
}

// What a scope saw stays as it was, whatever happens to the key and however often.
TEST_P(TablesModel, ValuesHoldUntilTheScopeEnds) {
  AnyIndex::Scope scope(*index_);
  ASSERT_TRUE(scope.Put("key", "first"));
  ValueView seen;
  ASSERT_TRUE(scope.Get("key", [&](ValueView v) { seen = v; }));
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(scope.Put("key", "other"));
    ASSERT_TRUE(scope.Remove("key"));
    ASSERT_FALSE(scope.Remove("key"));
  }
  EXPECT_EQ(std::string_view(seen.data, seen.size), "first");
}

// All threads want the same few keys: of those who remove one that is there, exactly one does.
TEST_P(TablesModel, EachValueIsRemovedOnce) {
  constexpr unsigned kThreads = 3;
  std::atomic<int64_t> puts_into_nothing{0}, removed{0};
  std::atomic<unsigned> started{0};
  const auto mover = index_->Move();
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937_64 random(id);
      started.fetch_add(1);
      while (started.load() < kThreads) std::this_thread::yield();
      for (int i = 0; i < 6000; ++i) {
        // Only the key's owner puts it back, so it knows whether it was there.
        const std::string mine = "key" + std::to_string(id);
        if (random() % 2 == 0 && Get(mine) == "none") {
          EXPECT_TRUE(Put(mine, std::string(40, static_cast<char>('a' + id))));
          puts_into_nothing.fetch_add(1);
        }
        if (Remove("key" + std::to_string(random() % kThreads))) removed.fetch_add(1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  int64_t left = 0;
  index_->ForEach([&](std::string_view, const void*) { ++left; });
  EXPECT_EQ(puts_into_nothing.load(), removed.load() + left);
  EXPECT_GT(removed.load(), 0);
}

// One thread's keys among those of the others, and what must be there.
struct Owner {
  TablesModel& test;
  unsigned id;
  MakeKey make;
  Model model{};

  void Run() {
    std::mt19937_64 random(id + 1);
    for (int i = 0; i < 6000 && !testing::Test::HasFailure(); ++i) {
      const std::string key = make(random() % 900, id);
      const unsigned puts = i / 1500 % 2 == 0 ? 10 : 3;
      const unsigned action = random() % 16;
      if (action < puts) {
        const std::string value = std::to_string(random());
        EXPECT_TRUE(test.Put(key, value));
        model[key] = value;
      } else if (action < 13) {
        EXPECT_EQ(test.Remove(key), model.erase(key) != 0);
      } else {
        const auto expected = model.find(key);
        EXPECT_EQ(test.Get(key), expected == model.end() ? "none" : expected->second);
      }
    }
  }
};

class TablesThreads : public TablesModel {};
INSTANTIATE_TEST_SUITE_P(All, TablesThreads, testing::ValuesIn(Tables()), kNameOfKind);

TEST_P(TablesThreads, EachFindsWhatItWrote) {
  constexpr unsigned kThreads = 3;
  const auto mover = index_->Move();
  for (const MakeKey make : {Decimal, SharedPrefix}) {
    std::vector<Owner> owners;
    for (unsigned id = 0; id < kThreads; ++id) owners.push_back({*this, id, make});
    std::vector<std::thread> threads;
    for (auto& owner : owners) threads.emplace_back([&owner] { owner.Run(); });
    for (std::thread& t : threads) t.join();
    Model all;
    for (const auto& owner : owners) all.insert(owner.model.begin(), owner.model.end());
    ExpectAll(all);
    for (const auto& [key, value] : all) ASSERT_TRUE(Remove(key));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace crest
