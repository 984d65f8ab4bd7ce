// What is special to the adaptive radix tree: nodes of four sizes, skipped prefixes, keys that end
// inside.
#include "index/art.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "restless_values.h"

namespace crest {
namespace {

using Nodes = ArtNodes<PlainValues>;
using Entry = Record<PlainValues>;
using Counts = std::array<size_t, 4>;

// A node as the tree uses it: grows when full, shrinks when too large; with what must be in it.
class ArtNode : public testing::Test {
 protected:
  ~ArtNode() override {
    Nodes::Destroy(node_);
    for (Entry* record : records_) Entry::Destroy(record);
  }

  void Insert(uint8_t byte) {
    if (Nodes::Full(node_)) Replace(Nodes::Grown(node_));
    records_.push_back(Entry::Make("key"));
    expected_[byte] = records_.back();
    Nodes::Insert(node_, byte, Nodes::Link(records_.back()));
  }
  void Remove(uint8_t byte) {
    Nodes::Remove(node_, byte);
    expected_[byte] = nullptr;
    if (Nodes::TooLarge(node_->kind, node_->children)) Replace(Nodes::Shrunk(node_));
  }
  void Replace(Nodes::Node* with) {
    ASSERT_NE(with, nullptr);
    Nodes::Destroy(node_);
    node_ = with;
  }
  void Check() {
    size_t next = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      const Nodes::Link* link = Nodes::Find(node_, static_cast<uint8_t>(byte));
      ASSERT_EQ(link != nullptr ? link->record() : nullptr, expected_[byte]) << byte;
      if (expected_[byte] == nullptr) continue;
      for (; next <= byte; ++next) {
        const Nodes::Child child = Nodes::Next(node_, next);
        ASSERT_NE(child.link, nullptr);
        ASSERT_EQ(child.byte, byte);
      }
    }
    ASSERT_EQ(Nodes::Next(node_, next).link, nullptr);
    ASSERT_EQ(Nodes::Next(node_, 256).link, nullptr);
    ASSERT_EQ(node_->prefix.view(), kPrefix);
  }

  static constexpr std::string_view kPrefix = "longer than what fits in a node";
  Nodes::Node* node_ = [] {
    Nodes::Node* node = Nodes::Make<Nodes::Node4>();
    EXPECT_TRUE(node->prefix.Assign(kPrefix));
    return node;
  }();
  std::array<Entry*, 256> expected_{};
  std::vector<Entry*> records_;
};

TEST_F(ArtNode, GrowsAndShrinksThroughAllSizes) {
  std::vector<uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0);
  std::mt19937_64 random(4);
  std::ranges::shuffle(bytes, random);
  for (size_t i = 0; i < bytes.size(); ++i) {
    Insert(bytes[i]);
    Check();
    const ArtKind kind = i < 4    ? ArtKind::k4
                         : i < 16 ? ArtKind::k16
                         : i < 48 ? ArtKind::k48
                                  : ArtKind::k256;
    ASSERT_EQ(node_->kind, kind) << i;
  }
  std::ranges::shuffle(bytes, random);
  for (const uint8_t byte : bytes) {
    Remove(byte);
    Check();
  }
  EXPECT_EQ(node_->kind, ArtKind::k4);
}

TEST_F(ArtNode, AtTheEdgeOfASizeItIsNotReplacedEachTime) {
  for (int byte = 0; byte < 17; ++byte) Insert(static_cast<uint8_t>(byte));
  ASSERT_EQ(node_->kind, ArtKind::k48);
  for (int i = 0; i < 3; ++i) {
    Remove(16);
    EXPECT_EQ(node_->kind, ArtKind::k48);
    Insert(16);
  }
  Check();
}

TEST(ArtPrefix, AssignsCutsAndMoves) {
  ArtPrefix prefix;
  EXPECT_EQ(prefix.view(), "");
  ASSERT_TRUE(prefix.Assign(std::string(40, 'a') + std::string(10, 'b')));
  prefix.Cut(30);
  EXPECT_EQ(prefix.view(), std::string(10, 'a') + std::string(10, 'b'));
  prefix.Cut(5);  // moves into the node
  EXPECT_EQ(prefix.view(), std::string(5, 'a') + std::string(10, 'b'));
  ArtPrefix other = std::move(prefix);
  other.Cut(15);
  EXPECT_EQ(other.view(), "");
  ASSERT_TRUE(other.Assign(std::string(16, 'c')));
  EXPECT_EQ(other.view(), std::string(16, 'c'));
}

class ArtTest : public testing::Test {
 protected:
  void Put(const std::string& key) {
    PlainValues::Scope scope(tree_.values);
    ASSERT_TRUE(tree_.index->Put(scope, key, key));
  }
  void Remove(const std::string& key) {
    PlainValues::Scope scope(tree_.values);
    ASSERT_TRUE(tree_.index->Remove(scope, key));
  }
  bool Has(const std::string& key) {
    PlainValues::Scope scope(tree_.values);
    return tree_.index->Get(scope, key, [&](ValueView value) {
      EXPECT_EQ(std::string_view(value.data, value.size), key);
    });
  }
  TestIndex<Art<PlainValues>, PlainValues> tree_;
};

TEST_F(ArtTest, OneKeyTakesNoNode) {
  Put("a key of its own");
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 0, 0, 1}));
  EXPECT_TRUE(Has("a key of its own"));
  EXPECT_FALSE(Has("a key of its ow"));
  EXPECT_FALSE(Has("a key of its own!"));
  EXPECT_FALSE(Has(""));
}

TEST_F(ArtTest, APrefixSplitsWhereverKeysLeaveIt) {
  const std::string trunk(60, 't');
  Put(trunk + "1");
  Put(trunk + "2");
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{1, 0, 0, 1}));  // skips 59 bytes
  // At the last byte of the prefix, the first one, and between.
  size_t nodes = 1;
  for (const size_t at : {59, 1, 30, 17, 16, 45}) {
    Put(trunk.substr(0, at) + "x");
    EXPECT_EQ(tree_.index->CountNodes(), (Counts{++nodes, 0, 0, 1}));
  }
  // And keys that end within it.
  Put(trunk.substr(0, 20));
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{++nodes, 0, 0, 1}));
  Put(trunk.substr(0, 30));  // where there is a node already
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{nodes, 0, 0, 1}));
  EXPECT_TRUE(Has(trunk.substr(0, 20)));
  EXPECT_FALSE(Has(trunk.substr(0, 21)));

  // The way back: each node that is left with one way on goes, and prefixes join again.
  Remove(trunk.substr(0, 20));
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{--nodes, 0, 0, 1}));
  Remove(trunk.substr(0, 30));
  for (const size_t at : {30, 59, 45, 1, 16, 17}) {
    Remove(trunk.substr(0, at) + "x");
    EXPECT_EQ(tree_.index->CountNodes(), (Counts{--nodes, 0, 0, 1}));
    EXPECT_TRUE(Has(trunk + "1"));
    EXPECT_TRUE(Has(trunk + "2"));
  }
  Remove(trunk + "2");
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 0, 0, 1}));
  EXPECT_TRUE(Has(trunk + "1"));
}

TEST_F(ArtTest, NodesGrowAndShrinkInTheTree) {
  const auto key = [](int byte) {
    return std::string("prefix") + static_cast<char>(byte) + "rest";
  };
  for (int byte = 0; byte < 256; ++byte) {
    Put(key(byte));
    if (byte == 15) {
      EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 1, 0, 1}));
    }
    if (byte == 16) {
      EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 0, 1, 1}));
    }
  }
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 0, 0, 2}));
  for (int byte = 255; byte > 1; --byte) Remove(key(byte));
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{1, 0, 0, 1}));
  Remove(key(1));
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 0, 0, 1}));
  EXPECT_TRUE(Has(key(0)));
}

TEST_F(ArtTest, AKeyThatEndsWhereOthersGoOn) {
  for (const char* key : {"", "a", "ab", "abc", "abcd"}) Put(key);
  for (const char* key : {"", "a", "ab", "abc", "abcd"}) EXPECT_TRUE(Has(key));
  Remove("ab");
  EXPECT_FALSE(Has("ab"));
  for (const char* key : {"", "a", "abc", "abcd"}) EXPECT_TRUE(Has(key));
  for (const char* key : {"a", "abc", ""}) Remove(key);
  EXPECT_EQ(tree_.index->CountNodes(), (Counts{0, 0, 0, 1}));
  EXPECT_TRUE(Has("abcd"));
}

}  // namespace
}  // namespace crest
