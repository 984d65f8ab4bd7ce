// ContextTable: which stacks are one context. The sampler's tests have it full.
#include "profile/contexts.h"

#include <gtest/gtest.h>

#include <vector>

#include "../hugepage/test_arena.h"

namespace strata {
namespace {

struct ContextTest : testing::Test {
  StackContext* Intern(const std::vector<uintptr_t>& frames) {
    return table.Intern(frames.data(), frames.size());
  }

  test::TestArena memory;
  ContextTable table{memory.arena()};
};

// Of which a program can have any, as it can have any frames.
TEST_F(ContextTest, StacksOfOneHashAreTwoContexts) {
  const auto mixed = [](uint64_t h, uintptr_t frame) {
    h = (h ^ frame) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
  };
  const std::vector<uintptr_t> one = {0x1000, 0x2000};
  std::vector<uintptr_t> other = {0x3000, 0};
  other[1] = mixed(2, one[0]) ^ one[1] ^ mixed(2, other[0]);
  ASSERT_EQ(HashFrames(one.data(), 2), HashFrames(other.data(), 2));
  EXPECT_NE(Intern(one), Intern(other));
  EXPECT_EQ(Intern(one), Intern(one));
  EXPECT_EQ(table.size(), 2u);
}

TEST_F(ContextTest, FramesBeyondTheDeepestDoNotCount) {
  std::vector<uintptr_t> frames(kMaxStackDepth + 6);
  for (size_t i = 0; i < frames.size(); ++i) frames[i] = 0x1000 + i;
  const StackContext* deep = Intern(frames);
  EXPECT_EQ(deep->depth, kMaxStackDepth);
  frames.back() = 0;
  EXPECT_EQ(Intern(frames), deep);
}

}  // namespace
}  // namespace strata
