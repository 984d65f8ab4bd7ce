// What is special to MassTree: the permutation, layers, and how they come and go.
#include "index/masstree.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "restless_values.h"

namespace crest {
namespace {

TEST(Permutation, KeepsOrderAndFreePlaces) {
  Permutation places;
  std::vector<size_t> model;
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    if (model.size() < Permutation::kPlaces && (model.empty() || random() % 2 == 0)) {
      const size_t index = random() % (model.size() + 1);
      const size_t place = places.Insert(index);
      ASSERT_EQ(std::ranges::count(model, place), 0);
      model.insert(model.begin() + static_cast<ptrdiff_t>(index), place);
    } else {
      const size_t index = random() % model.size();
      places.Remove(index);
      model.erase(model.begin() + static_cast<ptrdiff_t>(index));
    }
    ASSERT_EQ(places.size(), model.size());
    for (size_t k = 0; k < model.size(); ++k) ASSERT_EQ(places[k], model[k]);
    unsigned all = 0;
    for (size_t k = 0; k < Permutation::kPlaces; ++k) all |= 1u << places[k];
    ASSERT_EQ(all, (1u << Permutation::kPlaces) - 1);
  }
}

class MasstreeTest : public testing::Test {
 protected:
  using Layers = std::vector<size_t>;

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
  std::vector<std::string> Scan(const std::string& from, size_t limit) {
    PlainValues::Scope scope(tree_.values);
    std::vector<std::string> seen;
    tree_.index->Scan(scope, from, limit,
                      [&](std::string_view key, ValueView) { seen.emplace_back(key); });
    return seen;
  }
  Layers CountNodes() { return tree_.index->CountNodes(); }

  TestIndex<Masstree<PlainValues>, PlainValues> tree_;
};

TEST_F(MasstreeTest, ALayerComesWithTheSecondKeyThatGoesOn) {
  Put("12345678");  // ends with the slice
  Put("1234567");
  Put("12345678 and more");
  EXPECT_EQ(CountNodes(), (Layers{1}));
  Put("12345678 and other");
  EXPECT_EQ(CountNodes(), (Layers{1, 1}));  // they differ within the next slice
  Put("12345678:");
  EXPECT_EQ(CountNodes(), (Layers{1, 1}));
  Put("12345678 and more of it");
  EXPECT_EQ(CountNodes(), (Layers{1, 1, 1}));
  for (const char* key : {"12345678", "1234567", "12345678 and more", "12345678 and other"})
    EXPECT_TRUE(Has(key));
  EXPECT_FALSE(Has("12345678 and"));
  EXPECT_FALSE(Has("12345678 and mor"));
  EXPECT_FALSE(Has("12345678 and others"));
}

TEST_F(MasstreeTest, LayersGoWithTheirLastKey) {
  const std::string trunk(200, 't');
  Put(trunk + "1");
  Put(trunk + "2");
  EXPECT_EQ(CountNodes().size(), 26u);
  Remove(trunk + "1");
  EXPECT_EQ(CountNodes().size(), 26u);  // one key keeps its layer
  Remove(trunk + "2");
  EXPECT_EQ(CountNodes(), (Layers{1}));
  Put(trunk + "1");
  EXPECT_EQ(CountNodes(), (Layers{1}));
  EXPECT_TRUE(Has(trunk + "1"));
}

TEST_F(MasstreeTest, KeysThatEndAtEverySlice) {
  for (size_t slices = 0; slices <= 31; ++slices) Put(std::string(8 * slices, 's'));
  EXPECT_EQ(CountNodes().size(), 30u);  // the longest one goes on where the next ends
  for (size_t size = 0; size <= 248; ++size)
    EXPECT_EQ(Has(std::string(size, 's')), size % 8 == 0) << size;
  for (size_t slices = 0; slices <= 31; ++slices) Remove(std::string(8 * slices, 's'));
  EXPECT_EQ(CountNodes(), (Layers{1}));
}

TEST_F(MasstreeTest, TenKeysOfOneSliceStayTogether) {
  // Zeros at the end: all have the slice 0 and only their lengths tell them apart.
  std::vector<std::string> keys;
  for (size_t size = 0; size <= 9; ++size) keys.emplace_back(size, '\0');
  for (const std::string& key : keys) Put(key);
  EXPECT_EQ(CountNodes(), (Layers{1}));
  for (int other = 0; other < 200; ++other) {
    keys.push_back("\x01" + std::to_string(1000 + other));
    Put(keys.back());
  }
  EXPECT_GT(CountNodes()[0], 10u);
  EXPECT_EQ(Scan("", 1000), keys);
}

TEST_F(MasstreeTest, ALayerSplitsItsRootAndShrinksAgain) {
  const std::string trunk = "8 bytes.16 bytes";
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back(trunk + std::to_string(10000 + i));
  for (const std::string& key : keys) Put(key);
  Put("7 bytes");
  Put("9 bytes..");
  const Layers layers = CountNodes();
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0], 1u);
  EXPECT_EQ(layers[1], 1u);
  EXPECT_GT(layers[2], 2000 / Permutation::kPlaces);
  EXPECT_EQ(Scan(trunk, 5000).size(), 2001u);
  EXPECT_EQ(Scan(keys[700], 900), std::vector(keys.begin() + 700, keys.begin() + 1600));
  std::mt19937_64 random(3);
  std::ranges::shuffle(keys, random);
  for (const std::string& key : keys) Remove(key);
  EXPECT_EQ(CountNodes(), (Layers{1}));
  EXPECT_TRUE(Has("7 bytes"));
  EXPECT_EQ(Scan("", 10), (std::vector<std::string>{"7 bytes", "9 bytes.."}));
}

TEST_F(MasstreeTest, ScansGoThroughLayersAndOutAgain) {
  const std::vector<std::string> keys = {"",
                                         "aaaaaaaa",
                                         "aaaaaaaa\1",
                                         "aaaaaaaabbbbbbbb",
                                         "aaaaaaaabbbbbbbbcc",
                                         "aaaaaaaabbbbbbbbd",
                                         "aaaaaaaac",
                                         "aaaaaaab",
                                         "b",
                                         "\xff\xff\xff\xff\xff\xff\xff\xff"
                                         "1",
                                         "\xff\xff\xff\xff\xff\xff\xff\xff"
                                         "2"};
  for (const std::string& key : keys) Put(key);
  for (size_t first = 0; first < keys.size(); ++first) {
    for (size_t limit = 0; limit <= keys.size() - first; ++limit) {
      const auto begin = keys.begin() + static_cast<ptrdiff_t>(first);
      EXPECT_EQ(Scan(keys[first], limit),
                std::vector(begin, begin + static_cast<ptrdiff_t>(limit)));
    }
  }
  // From between two keys, above and below.
  EXPECT_EQ(Scan("aaaaaaaabbbbbbbbce", 2), (std::vector{keys[5], keys[6]}));
  EXPECT_EQ(Scan(std::string(12, '\xff'), 2), std::vector<std::string>());
}

}  // namespace
}  // namespace crest
