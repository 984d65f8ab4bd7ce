// Which freed large runs go back at once, by the account of what was taken anew afterwards.
#include "hugepage/prompt_release.h"

#include <gtest/gtest.h>

#include <utility>

namespace strata {
namespace {

TEST(PromptReleaseTest, EachGenerationOfATableThatGrowsGoesBack) {
  for (const auto& [times, by] : {std::pair<size_t, size_t>{2, 1}, {3, 2}}) {
    PromptRelease rule(true);
    for (size_t n = 2; n <= 2048; n = n * times / by) {
      rule.NoteFresh(HugePages(n * times / by));  // the next one, taken while the last lives
      EXPECT_TRUE(rule.NoteFreed(HugePages(n))) << n;
    }
  }
}

TEST(PromptReleaseTest, WhatARoundTakesAnewIsRegretted) {
  PromptRelease rule(true);
  int gone = 0;
  for (int round = 0; round < 50; ++round) {
    rule.NoteFresh(HugePages(20));
    gone += rule.NoteFreed(HugePages(20));
  }
  EXPECT_EQ(gone, 5);
  EXPECT_TRUE(rule.NoteFreed(HugePages(25))) << "a larger one is another beginning";
}

TEST(PromptReleaseTest, AnySizesCountTogether) {
  PromptRelease rule(true);
  int gone = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 20; ++i) rule.NoteFresh(HugePages(1));
    gone += rule.NoteFreed(HugePages(20));
  }
  EXPECT_EQ(gone, 5);
}

TEST(PromptReleaseTest, WhatIsTakenBeyondIsNotRegretted) {
  PromptRelease rule(true);
  EXPECT_TRUE(rule.NoteFreed(HugePages(4)));
  rule.NoteFresh(HugePages(400));
  rule.NoteFresh(HugePages(400));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(rule.NoteFreed(HugePages(4)));
}

TEST(PromptReleaseTest, NoMoreThanTwiceTheLargestIsOutAtOnce) {
  PromptRelease rule(true);
  EXPECT_TRUE(rule.NoteFreed(HugePages(8)));
  EXPECT_TRUE(rule.NoteFreed(HugePages(8)));
  EXPECT_FALSE(rule.NoteFreed(HugePages(8)));
  rule.NoteFresh(HugePages(8));
  EXPECT_TRUE(rule.NoteFreed(HugePages(8)));
}

TEST(PromptReleaseTest, ALargeRunSaysNothingOfSmallOnes) {
  PromptRelease rule(true);
  EXPECT_TRUE(rule.NoteFreed(HugePages(512)));
  rule.NoteFresh(HugePages(512));
  EXPECT_FALSE(rule.NoteFreed(HugePages(1)));
}

TEST(PromptReleaseTest, WhatIsLongAgoIsForgotten) {
  PromptRelease rule(true);
  for (int i = 0; i < 9; ++i) {
    rule.NoteFreed(HugePages(20));
    rule.NoteFresh(HugePages(20));
  }
  EXPECT_FALSE(rule.NoteFreed(HugePages(20)));
  rule.Age();
  EXPECT_FALSE(rule.NoteFreed(HugePages(20))) << "not at once";
  for (int s = 0; s < 60; ++s) rule.Age();
  EXPECT_TRUE(rule.NoteFreed(HugePages(20)));
  EXPECT_TRUE(rule.NoteFreed(HugePages(20)));
  EXPECT_FALSE(rule.NoteFreed(HugePages(20)));
  for (int s = 0; s < 60; ++s) rule.Age();
  EXPECT_TRUE(rule.NoteFreed(HugePages(20)));
}

TEST(PromptReleaseTest, NothingGoesWhereItIsOff) {
  PromptRelease rule(false);
  EXPECT_FALSE(rule.NoteFreed(HugePages(8)));
}

}  // namespace
}  // namespace strata
