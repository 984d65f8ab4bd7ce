// The trees of CrestDB against std::map, one thread, with values that stay and values that move.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "any_index.h"
#include "effort.h"
#include "key_kinds.h"

namespace crest {
namespace {

class TreesModel : public testing::TestWithParam<IndexKind> {
 protected:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  void Put(const std::string& key, const std::string& value) {
    AnyIndex::Scope scope(*tree_);
    ASSERT_TRUE(scope.Put(key, value));
    model_[key] = value;
  }
  void Remove(const std::string& key) {
    AnyIndex::Scope scope(*tree_);
    ASSERT_EQ(scope.Remove(key), model_.erase(key) != 0);
  }
  void CheckGet(const std::string& key) {
    AnyIndex::Scope scope(*tree_);
    std::string seen = "none";
    const bool found =
        scope.Get(key, [&](ValueView value) { seen.assign(value.data, value.size); });
    const auto expected = model_.find(key);
    ASSERT_EQ(found, expected != model_.end());
    if (found) {
      ASSERT_EQ(seen, expected->second);
    }
  }
  void CheckScan(const std::string& from, size_t limit) {
    AnyIndex::Scope scope(*tree_);
    Pairs seen;
    const size_t count = scope.Scan(from, limit, [&](std::string_view key, ValueView value) {
      seen.emplace_back(key, std::string(value.data, value.size));
    });
    Pairs expected;
    for (auto it = model_.lower_bound(from); it != model_.end() && expected.size() < limit; ++it)
      expected.push_back(*it);
    ASSERT_EQ(count, seen.size());
    ASSERT_EQ(seen, expected);
  }
  void CheckAll() {
    std::vector<std::string> seen, expected;
    tree_->ForEach([&](std::string_view key, const void*) { seen.emplace_back(key); });
    for (const auto& pair : model_) expected.push_back(pair.first);
    ASSERT_EQ(seen, expected);
    CheckScan("", model_.size() + 1);
  }

  const std::unique_ptr<AnyIndex> tree_ = GetParam().make();
  std::map<std::string, std::string> model_;
};
INSTANTIATE_TEST_SUITE_P(All, TreesModel, testing::ValuesIn(Trees()), kNameOfKind);

TEST_P(TreesModel, RandomOperations) {
  std::mt19937_64 random(12);
  for (const MakeKey make : kKeyKinds) {
    // Fills, then drains, twice: splits and removals meet every state in between.
    for (int i = 0; i < kEffort * 4000; ++i) {
      const std::string key = make(random() % 2000, random() % 3);
      const unsigned puts = i / (kEffort * 1000) % 2 == 0 ? 11 : 3;
      const unsigned action = random() % 16;
      if (action < puts) {
        Put(key, std::to_string(random()));
      } else if (action < 14) {
        Remove(key);
      } else if (action == 14) {
        CheckGet(key);
      } else {
        CheckScan(key, random() % 50);
      }
      if (HasFatalFailure()) return;
    }
    CheckAll();
  }
}

TEST_P(TreesModel, KeysInOrderBothWays) {
  for (unsigned i = 0; i < 3000; ++i) Put(std::to_string(1000000 + i), std::to_string(i));
  for (unsigned i = 3000; i-- > 0;) Put(std::to_string(5000000 + i), std::to_string(i));
  CheckAll();
  for (unsigned i = 0; i < 3000; ++i) Remove(std::to_string(1000000 + i));
  CheckAll();
  for (unsigned i = 3000; i-- > 0;) Remove(std::to_string(5000000 + i));
  CheckAll();
}

TEST_P(TreesModel, KeysOfEveryLength) {
  for (const char fill : {'\0', 'x', '\xff'}) {
    for (size_t size = 0; size <= 255; ++size) Put(std::string(size, fill), "v");
  }
  CheckAll();
  for (size_t size = 0; size <= 255; ++size) CheckScan(std::string(size, 'x'), 3);
  for (const char fill : {'\0', 'x', '\xff'}) {
    for (size_t size = 255; size > 0; --size) Remove(std::string(size, fill));
  }
  CheckAll();
}

TEST_P(TreesModel, ValuesOfAnySize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{300000}}) {
    Put("key", std::string(size, 'v'));
    CheckGet("key");
  }
}

// What a scope saw stays as it was, whatever happens to the key.
TEST_P(TreesModel, ValuesHoldUntilTheScopeEnds) {
  AnyIndex::Scope scope(*tree_);
  ASSERT_TRUE(scope.Put("key", "first"));
  ValueView seen;
  ASSERT_TRUE(scope.Get("key", [&](ValueView value) { seen = value; }));
  ASSERT_TRUE(scope.Put("key", "other"));
  ASSERT_TRUE(scope.Remove("key"));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(scope.Put("key", "more"));
    ASSERT_TRUE(scope.Remove("key"));
  }
  EXPECT_EQ(std::string_view(seen.data, seen.size), "first");
}

}  // namespace
}  // namespace crest
