// The trees of CrestDB against std::map, one thread, with values that stay and values that move.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tree_kinds.h"

namespace crest {
namespace {

template <class Kind>
class TreesModel : public testing::Test {
 protected:
  using Scope = typename Kind::Scope;
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  void Put(const std::string& key, const std::string& value) {
    Scope scope(tree_.values);
    ASSERT_TRUE(tree_.index->Put(scope, key, value));
    model_[key] = value;
  }
  void Remove(const std::string& key) {
    Scope scope(tree_.values);
    ASSERT_EQ(tree_.index->Remove(scope, key), model_.erase(key) != 0);
  }
  void CheckGet(const std::string& key) {
    Scope scope(tree_.values);
    std::string seen = "none";
    const bool found =
        tree_.index->Get(scope, key, [&](ValueView value) { seen.assign(value.data, value.size); });
    const auto expected = model_.find(key);
    ASSERT_EQ(found, expected != model_.end());
    if (found) {
      ASSERT_EQ(seen, expected->second);
    }
  }
  void CheckScan(const std::string& from, size_t limit) {
    Scope scope(tree_.values);
    Pairs seen;
    const size_t count =
        tree_.index->Scan(scope, from, limit, [&](std::string_view key, ValueView value) {
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
    tree_.index->ForEach([&](std::string_view key, auto&) { seen.emplace_back(key); });
    for (const auto& pair : model_) expected.push_back(pair.first);
    ASSERT_EQ(seen, expected);
    CheckScan("", model_.size() + 1);
  }

  typename Kind::Test tree_;
  std::map<std::string, std::string> model_;
};
TYPED_TEST_SUITE(TreesModel, TreeKinds);

TYPED_TEST(TreesModel, RandomOperations) {
  std::mt19937_64 random(12);
  for (const MakeKey make : kKeyKinds) {
    // Fills, then drains, twice: splits and removals meet every state in between.
    for (int i = 0; i < kEffort * 4000; ++i) {
      const std::string key = make(random() % 2000, random() % 3);
      const unsigned puts = i / (kEffort * 1000) % 2 == 0 ? 11 : 3;
      const unsigned action = random() % 16;
      if (action < puts) {
        this->Put(key, std::to_string(random()));
      } else if (action < 14) {
        this->Remove(key);
      } else if (action == 14) {
        this->CheckGet(key);
      } else {
        this->CheckScan(key, random() % 50);
      }
      if (this->HasFatalFailure()) return;
    }
    this->CheckAll();
  }
}

TYPED_TEST(TreesModel, KeysInOrderBothWays) {
  for (unsigned i = 0; i < 3000; ++i) this->Put(std::to_string(1000000 + i), std::to_string(i));
  for (unsigned i = 3000; i-- > 0;) this->Put(std::to_string(5000000 + i), std::to_string(i));
  this->CheckAll();
  for (unsigned i = 0; i < 3000; ++i) this->Remove(std::to_string(1000000 + i));
  this->CheckAll();
  for (unsigned i = 3000; i-- > 0;) this->Remove(std::to_string(5000000 + i));
  this->CheckAll();
}

TYPED_TEST(TreesModel, KeysOfEveryLength) {
  for (const char fill : {'\0', 'x', '\xff'}) {
    for (size_t size = 0; size <= 255; ++size) this->Put(std::string(size, fill), "v");
  }
  this->CheckAll();
  for (size_t size = 0; size <= 255; ++size) this->CheckScan(std::string(size, 'x'), 3);
  for (const char fill : {'\0', 'x', '\xff'}) {
    for (size_t size = 255; size > 0; --size) this->Remove(std::string(size, fill));
  }
  this->CheckAll();
}

TYPED_TEST(TreesModel, ValuesOfAnySize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{300000}}) {
    this->Put("key", std::string(size, 'v'));
    this->CheckGet("key");
  }
}

// What a scope saw stays as it was, whatever happens to the key.
TYPED_TEST(TreesModel, ValuesHoldUntilTheScopeEnds) {
  typename TypeParam::Scope scope(this->tree_.values);
  ASSERT_TRUE(this->tree_.index->Put(scope, "key", "first"));
  ValueView seen;
  ASSERT_TRUE(this->tree_.index->Get(scope, "key", [&](ValueView value) { seen = value; }));
  ASSERT_TRUE(this->tree_.index->Put(scope, "key", "other"));
  ASSERT_TRUE(this->tree_.index->Remove(scope, "key"));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(this->tree_.index->Put(scope, "key", "more"));
    ASSERT_TRUE(this->tree_.index->Remove(scope, "key"));
  }
  EXPECT_EQ(std::string_view(seen.data, seen.size), "first");
}

}  // namespace
}  // namespace crest
