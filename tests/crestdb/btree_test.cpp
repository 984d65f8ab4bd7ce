// What is special to the B+trees: keys by their words behind a shared prefix, and nodes that come
// and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "index/coarse_btree.h"
#include "index/occ_btree.h"
#include "restless_values.h"

namespace crest {
namespace {

using Entry = Record<PlainValues>;
constexpr size_t kCapacity = 8;
using Keys = BTreeKeys<Entry, kCapacity>;

class BTreeKeysTest : public testing::Test {
 protected:
  ~BTreeKeysTest() override {
    for (Entry* record : records_) Entry::Destroy(record);
  }
  void Insert(const std::string& key) {
    const auto place = keys_.Find(key);
    ASSERT_FALSE(place.exact);
    records_.push_back(Entry::Make(key));
    keys_.Insert(place.index, records_.back());
    model_.insert(std::ranges::lower_bound(model_, key), key);
  }
  static void Check(const Keys& keys, const std::vector<std::string>& model,
                    const std::vector<std::string>& probes) {
    ASSERT_EQ(keys.size(), model.size());
    for (const std::string& probe : probes) {
      const auto expected = std::ranges::lower_bound(model, probe);
      const auto place = keys.Find(probe);
      ASSERT_EQ(place.index, static_cast<size_t>(expected - model.begin())) << probe;
      ASSERT_EQ(place.exact, expected != model.end() && *expected == probe) << probe;
    }
  }

  Keys keys_;
  std::vector<std::string> model_;
  std::vector<Entry*> records_;
};

TEST_F(BTreeKeysTest, FindsAmongKeysWithAnyPrefix) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 400; ++round) {
    // Prefixes that a node has room for and longer ones; tails that differ early, late, or by
    // zeros.
    const std::string prefix(random() % 40, static_cast<char>(random() % 3));
    std::vector<std::string> probes = {"", prefix, prefix.substr(0, prefix.size() / 2), "zzz",
                                       prefix + std::string(12, '\xff')};
    for (int i = 0; i < 40; ++i) {
      std::string key =
          prefix.substr(0, prefix.size() - (random() % 8 == 0 ? prefix.size() / 3 : 0));
      for (unsigned n = random() % 14; n != 0; --n) key.push_back(static_cast<char>(random() % 2));
      probes.push_back(key);
    }
    for (const std::string& key : probes) {
      if (model_.size() < kCapacity && !keys_.Find(key).exact) Insert(key);
      Check(keys_, model_, probes);
      if (HasFatalFailure()) return;
    }
    if (model_.size() == kCapacity) {
      Keys right;
      keys_.Split(3, 4, right);
      Check(right, {model_.begin() + 4, model_.end()}, probes);
      model_.resize(3);
      Check(keys_, model_, probes);
    }
    while (!model_.empty()) {
      const size_t index = random() % model_.size();
      keys_.Remove(index);
      model_.erase(model_.begin() + static_cast<ptrdiff_t>(index));
      Check(keys_, model_, probes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(BTreeSeparator, IsAsShortAsItCanBe) {
  const auto between = [](std::string_view left, std::string_view right) {
    BTreeSeparator* separator = BTreeSeparator::Between(left, right);
    const std::string key(separator->key());
    std::free(separator);
    return key;
  };
  EXPECT_EQ(between("apple", "banana"), "b");
  EXPECT_EQ(between("app", "apple"), "appl");
  EXPECT_EQ(between("apple", "apply"), "apply");
  EXPECT_EQ(between("", std::string(2, '\0')), std::string(1, '\0'));
}

template <class Tree>
class BTreeNodesTest : public testing::Test {
 protected:
  void Put(int n) {
    PlainValues::Scope scope(tree_.values);
    ASSERT_TRUE(tree_.index->Put(scope, Key(n), "value"));
  }
  void Remove(int n) {
    PlainValues::Scope scope(tree_.values);
    ASSERT_TRUE(tree_.index->Remove(scope, Key(n)));
  }
  static std::string Key(int n) { return "key" + std::to_string(100000 + n); }

  TestIndex<Tree, PlainValues> tree_;
};
using Trees = testing::Types<CoarseBTree<PlainValues>, OccBTree<PlainValues>>;
TYPED_TEST_SUITE(BTreeNodesTest, Trees);

TYPED_TEST(BTreeNodesTest, AscendingKeysFillTheirLeaves) {
  for (int n = 0; n < 5000; ++n) this->Put(n);
  constexpr size_t kLeaf = BTreeNodes<PlainValues>::kCapacity;
  EXPECT_LE(this->tree_.index->CountNodes(), 5000 / kLeaf * 6 / 5);
}

TYPED_TEST(BTreeNodesTest, NodesGoWithTheirKeysInAnyOrder) {
  std::mt19937_64 random(2);
  for (int order = 0; order < 4; ++order) {
    std::vector<int> keys(5000);
    for (int n = 0; n < 5000; ++n) keys[n] = n;
    if (order % 2 != 0) std::ranges::shuffle(keys, random);
    for (const int n : keys) this->Put(n);
    EXPECT_GT(this->tree_.index->CountNodes(), 170u);
    if (order == 2) std::ranges::reverse(keys);
    if (order == 3) std::ranges::shuffle(keys, random);
    // One key in a hundred keeps a leaf at most.
    for (const int n : keys) {
      if (n % 100 != 0) this->Remove(n);
    }
    EXPECT_LE(this->tree_.index->CountNodes(), 2 * 50u);
    for (const int n : keys) {
      if (n % 100 == 0) this->Remove(n);
    }
    EXPECT_EQ(this->tree_.index->CountNodes(), 1u);
  }
}

}  // namespace
}  // namespace crest
