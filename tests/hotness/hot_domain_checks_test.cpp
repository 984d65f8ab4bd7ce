// What a domain checks of its use: that checking ends where it is bounded, and names what is wrong.
#include <gtest/gtest.h>

#include "fake_hot_memory.h"
#include "hotness/hot_domain.h"

namespace strata {
namespace {

// In a build that optimises and keeps its assertions a large program must stay usable.
TEST(HotDomain, BoundedChecksEnd) {
  HotScene s;
  s.domain.CheckUses(CheckBounds::kTheFirst);
  std::vector<strata_hot_guide> guides(UseChecks::kBoundedObjects + 10);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 64, 3));
  const auto is_page = [](const strata_hot_guide& g) { return g.word % kNativePageSize == 0; };
  EXPECT_TRUE(is_page(guides[0]) && is_page(guides[UseChecks::kBoundedObjects - 1]));
  EXPECT_FALSE(is_page(guides.back()));
  const void* before = strata_hot_peek(&guides[0]);
  EXPECT_EQ(s.Use(&guides[0]), 3);
  EXPECT_NE(strata_hot_peek(&guides[0]), before);
  s.Round();
  EXPECT_TRUE(s.domain.scopes().phase().lists());
  for (uint32_t i = 0; i < UseChecks::kBoundedOperations; ++i) s.Use(&guides[1]);
  before = strata_hot_peek(&guides[0]);
  EXPECT_EQ(s.Use(&guides[0]), 3);
  EXPECT_EQ(strata_hot_peek(&guides[0]), before);
  s.Round();
  EXPECT_FALSE(s.domain.scopes().phase().lists());
  for (strata_hot_guide& g : guides) s.Drop(&g);
  s.domain.EndQuarantine();
}

// One that uses the same again and again stops listing it, and holds everything.
TEST(HotDomain, ALoopInABoundedOperationIsCheap) {
  HotScene s;
  s.domain.CheckUses(CheckBounds::kTheFirst);
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 3));
  strata_hot_scope op;
  s.domain.Enter(&op);
  for (int i = 0; i < 1100; ++i) HotDomain::GetSlow(&op, &g);
  EXPECT_EQ(op.expected, GuideWord::kUsed);
  EXPECT_TRUE(s.domain.scopes().InUse(1));
  HotDomain::Leave(&op);
  EXPECT_FALSE(s.domain.scopes().InUse(1));
  s.Drop(&g);
  s.domain.EndQuarantine();
}

using HotDomainDeathTest = testing::Test;

TEST(HotDomainDeathTest, MisuseIsNamed) {
  HotScene s;
  const strata_hot_type type = {"Node", nullptr, nullptr};
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 3, &type));
  strata_hot_guide copy = g;
  EXPECT_DEATH(s.domain.owners().Disown(&copy), "a guide was copied as bytes.*Node");
  void* p = s.domain.owners().Disown(&g);
  s.domain.owners().Free(p);
  EXPECT_DEATH(s.domain.owners().Free(p), "an object was freed twice.*Node");
  EXPECT_DEATH(s.domain.owners().Free(&s), "what is no object");
}

}  // namespace
}  // namespace strata
