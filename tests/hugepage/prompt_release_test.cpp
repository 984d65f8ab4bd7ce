// Which freed large runs go back at once: those larger than any that was missed.
#include "hugepage/prompt_release.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(PromptReleaseTest, EachGenerationOfATableThatGrowsGoesBack) {
  PromptRelease rule;
  for (size_t n = 1; n <= 256; n *= 2) {
    rule.NoteMiss(HugePages(2 * n));  // the next one, taken while the last lives
    EXPECT_TRUE(rule.NoteFreed(HugePages(n))) << n;
  }
}

TEST(PromptReleaseTest, AProgramThatWorksInRoundsIsKnownFromTheSecondOn) {
  PromptRelease rule;
  rule.NoteMiss(HugePages(20));
  EXPECT_TRUE(rule.NoteFreed(HugePages(20)));
  rule.NoteMiss(HugePages(20));
  EXPECT_FALSE(rule.NoteFreed(HugePages(20)));
  EXPECT_FALSE(rule.NoteFreed(HugePages(25))) << "a quarter more";
  EXPECT_TRUE(rule.NoteFreed(HugePages(26)));
  EXPECT_FALSE(rule.NoteFreed(HugePages(25)));
}

TEST(PromptReleaseTest, AMissThatNothingWouldHaveServedTellsNothing) {
  PromptRelease rule;
  EXPECT_TRUE(rule.NoteFreed(HugePages(8)));
  rule.NoteMiss(HugePages(9));
  EXPECT_TRUE(rule.NoteFreed(HugePages(1)));
  rule.NoteMiss(HugePages(8));
  EXPECT_FALSE(rule.NoteFreed(HugePages(8)));
}

TEST(PromptReleaseTest, ASmallMissKeepsSmallRunsOnly) {
  PromptRelease rule;
  EXPECT_TRUE(rule.NoteFreed(HugePages(64)));
  rule.NoteMiss(HugePages(4));
  EXPECT_FALSE(rule.NoteFreed(HugePages(5)));
  EXPECT_TRUE(rule.NoteFreed(HugePages(6)));
  rule.NoteMiss(HugePages(3));  // lowers nothing
  EXPECT_FALSE(rule.NoteFreed(HugePages(5)));
}

}  // namespace
}  // namespace strata
