// TreeFit against a multiset: whatever is added, removed and taken, in any order, each block that
// it gives is the smallest that fits, and none is lost.
#include "strata/layers/combine/tree_fit.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>
#include <set>
#include <vector>

namespace strata::layers {
namespace {

// Free blocks one behind the other, in memory that is used only where they are written.
class Blocks {
 public:
  Blocks() {
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    begin_ = p == MAP_FAILED ? nullptr : static_cast<char*>(p);
    at_ = begin_ + 4096;
  }
  ~Blocks() { munmap(begin_, kBytes); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  TaggedBlock* Make(size_t size) {
    EXPECT_LT(at_ + size + 4096, begin_ + kBytes);
    TaggedBlock* b = TaggedBlock::Of(at_);
    b->SetFree(size);
    at_ += size;
    return b;
  }

 private:
  static constexpr size_t kBytes = size_t{4} << 30;
  char* begin_;
  char* at_;
};

size_t SizeOf(std::mt19937& random) {
  const size_t unit = TaggedBlock::kUnit;
  switch (random() % 5) {
    case 0:
      return TaggedBlock::kLeast + random() % 70 * unit;  // lists, and the first of the trees
    case 1:
      return 1024 + random() % 8 * unit;  // many of one size
    case 2:
      return (size_t{1024} << random() % 10) + (random() % 3) * unit;
    case 3:
      return (size_t{1024} << random() % 10) - (1 + random() % 3) * unit;
    default:
      return 1024 + random() % 30'000 * unit;
  }
}

template <class Finder>
void RunAgainstModel(unsigned seed) {
  std::mt19937 random(seed);
  Blocks memory;
  Finder finder;
  std::set<std::pair<size_t, TaggedBlock*>> kept;
  std::vector<TaggedBlock*> spare;
  for (int i = 0; i < 400; ++i) spare.push_back(memory.Make(SizeOf(random)));
  for (int step = 0; step < 30'000; ++step) {
    const bool growing = (step / 1000) % 2 == 0;
    if (!spare.empty() && random() % 10 < (growing ? 7u : 3u)) {
      const size_t at = random() % spare.size();
      finder.Add(spare[at]);
      kept.emplace(spare[at]->size(), spare[at]);
      spare[at] = spare.back();
      spare.pop_back();
    } else if (random() % 2 == 0) {
      const size_t wanted = SizeOf(random);
      TaggedBlock* b = finder.Take(wanted);
      const auto best = kept.lower_bound({wanted, nullptr});
      ASSERT_EQ(b == nullptr, best == kept.end()) << wanted;
      if (b == nullptr) continue;
      ASSERT_EQ(b->size(), best->first) << "for " << wanted;
      ASSERT_EQ(kept.erase({b->size(), b}), 1u) << "it was not there";
      spare.push_back(b);
    } else if (!kept.empty()) {
      auto it = kept.begin();
      std::advance(it, static_cast<ptrdiff_t>(random() % kept.size()));
      finder.Remove(it->second);
      spare.push_back(it->second);
      kept.erase(it);
    }
    ASSERT_EQ(finder.empty(), kept.empty());
  }
  while (TaggedBlock* b = finder.Take(TaggedBlock::kLeast)) {
    ASSERT_EQ(b->size(), kept.begin()->first);
    ASSERT_EQ(kept.erase({b->size(), b}), 1u);
  }
  EXPECT_TRUE(kept.empty());
}

template <class Finder>
class Finders : public testing::Test {};
using Kinds = testing::Types<TreeFit, BasicTreeFit<24>>;
TYPED_TEST_SUITE(Finders, Kinds);

TYPED_TEST(Finders, GiveTheSmallestThatFits) {
  for (unsigned seed = 1; seed <= 5; ++seed) RunAgainstModel<TypeParam>(seed);
}

TYPED_TEST(Finders, ForgetWhatTheyKeepWhenCleared) {
  Blocks memory;
  TypeParam finder;
  for (size_t size : {32u, 1008u, 1024u, 5000u / 16 * 16, 100'000u / 16 * 16})
    finder.Add(memory.Make(size));
  finder.Clear();
  EXPECT_TRUE(finder.empty());
  EXPECT_EQ(finder.Take(32), nullptr);
  TaggedBlock* b = memory.Make(4992);
  finder.Add(b);
  EXPECT_EQ(finder.Take(1024), b);
  EXPECT_TRUE(finder.empty());
}

TYPED_TEST(Finders, HaveNothingForEnormousRequests) {
  Blocks memory;
  TypeParam finder;
  finder.Add(memory.Make(size_t{1} << 23));
  for (size_t bits = 24; bits < 64; ++bits) EXPECT_EQ(finder.Take(size_t{1} << bits), nullptr);
  EXPECT_NE(finder.Take(size_t{1} << 22), nullptr);
}

// Sizes in order are the worst for a tree that does not look at bits.
TEST(TreeFit, KeepsManySizesInOrder) {
  Blocks memory;
  TreeFit finder;
  std::vector<TaggedBlock*> blocks;
  for (size_t i = 0; i < 60'000; ++i) blocks.push_back(memory.Make(2048 + i % 2000 * 16));
  for (TaggedBlock* b : blocks) finder.Add(b);
  size_t last = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    TaggedBlock* b = finder.Take(1);
    ASSERT_NE(b, nullptr);
    ASSERT_GE(b->size(), last);
    last = b->size();
  }
  EXPECT_TRUE(finder.empty());
}

}  // namespace
}  // namespace strata::layers
