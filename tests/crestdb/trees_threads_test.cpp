// The trees of CrestDB with several threads while values move. Each thread writes its own keys
// among those of the others, so it knows what it must find there, in scans as well.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "any_index.h"
#include "effort.h"
#include "key_kinds.h"

namespace crest {
namespace {

constexpr unsigned kThreads = 3;

class TreesThreads : public testing::TestWithParam<IndexKind> {
 protected:
  using Scope = AnyIndex::Scope;

  // One thread's keys and what it does with them.
  struct Owner {
    TreesThreads& test;
    unsigned id;
    MakeKey make;
    std::mt19937_64 random{id + 1};
    std::map<std::string, std::string> model{};

    char Sign() const { return static_cast<char>('A' + id); }
    std::string Key() { return make(random() % 2000, id); }

    void Run(int rounds) {
      for (int i = 0; i < rounds && !HasFailure(); ++i) {
        Scope scope(*test.tree_);
        const unsigned puts = i / (kEffort * 400) % 2 == 0 ? 10 : 3;
        const unsigned action = random() % 16;
        if (action < puts) {
          Put(scope);
        } else if (action < 12) {
          const std::string key = Key();
          EXPECT_EQ(scope.Remove(key), model.erase(key) != 0);
        } else if (action < 14) {
          Get(scope);
        } else if (action == 14) {
          GetOfAnother(scope);
        } else {
          Scan(scope);
        }
      }
    }

    void Put(Scope& scope) {
      const std::string key = Key();
      const std::string value = Sign() + std::to_string(random());
      EXPECT_TRUE(scope.Put(key, value));
      model[key] = value;
    }
    void Get(Scope& scope) {
      const std::string key = Key();
      std::string seen;
      const bool found =
          scope.Get(key, [&](ValueView value) { seen.assign(value.data, value.size); });
      const auto expected = model.find(key);
      EXPECT_EQ(found, expected != model.end());
      if (found) {
        EXPECT_EQ(seen, expected->second);
      }
    }
    void GetOfAnother(Scope& scope) {
      const unsigned other = (id + 1) % kThreads;
      scope.Get(make(random() % 2000, other),
                [&](ValueView value) { EXPECT_EQ(value.data[0], static_cast<char>('A' + other)); });
    }
    // In order, each once, and of this thread's keys exactly those that are there.
    void Scan(Scope& scope) {
      const std::string from = Key();
      constexpr size_t kLimit = 40;
      std::vector<std::string> seen;
      std::map<std::string, std::string> mine;
      const size_t count = scope.Scan(from, kLimit, [&](std::string_view key, ValueView value) {
        EXPECT_GE(key, from);
        if (!seen.empty()) {
          EXPECT_GT(key, seen.back());
        }
        seen.emplace_back(key);
        if (value.data[0] == Sign()) mine[seen.back()] = std::string(value.data, value.size);
      });
      EXPECT_EQ(count, seen.size());
      auto end = model.end();
      if (count == kLimit) end = model.upper_bound(seen.back());
      const std::map<std::string, std::string> expected(model.lower_bound(from), end);
      EXPECT_EQ(mine, expected);
    }
  };

  const std::unique_ptr<AnyIndex> tree_ = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(All, TreesThreads, testing::ValuesIn(Trees()), kNameOfKind);

TEST_P(TreesThreads, EachFindsWhatItWrote) {
  const auto mover = tree_->Move();
  for (const MakeKey make : kKeyKinds) {
    std::vector<Owner> owners;
    for (unsigned id = 0; id < kThreads; ++id) owners.push_back({*this, id, make});
    std::vector<std::thread> threads;
    for (auto& owner : owners) threads.emplace_back([&owner] { owner.Run(kEffort * 1600); });
    for (std::thread& thread : threads) thread.join();
    std::map<std::string, std::string> expected;
    for (const auto& owner : owners) expected.insert(owner.model.begin(), owner.model.end());
    std::vector<std::string> keys, seen;
    for (const auto& pair : expected) keys.push_back(pair.first);
    tree_->ForEach([&](std::string_view key, const void*) { seen.emplace_back(key); });
    ASSERT_EQ(seen, keys);
    for (const std::string& key : keys) {
      Scope scope(*tree_);
      ASSERT_TRUE(scope.Remove(key));
    }
  }
}

}  // namespace
}  // namespace crest
