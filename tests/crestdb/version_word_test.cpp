// The version word of nodes that are read without locks.
#include "index/version_word.h"

#include <gtest/gtest.h>

namespace crest {
namespace {

TEST(VersionWord, ALockAloneChangesNothingForReaders) {
  VersionWord word;
  const auto version = word.Stable();
  word.Lock();
  EXPECT_TRUE(word.Unchanged(version));
  EXPECT_EQ(VersionWord::Split(version, word.Stable()), false);
  word.Unlock();
  EXPECT_TRUE(word.Unchanged(version));
  ASSERT_TRUE(word.LockIf(version));
  word.Unlock();
}

TEST(VersionWord, AnInsertionShowsWhileAndAfter) {
  VersionWord word;
  const auto version = word.Stable();
  word.Lock();
  word.MarkInserting();
  EXPECT_FALSE(word.Unchanged(version));
  word.Unlock();
  EXPECT_FALSE(word.Unchanged(version));
  EXPECT_FALSE(word.LockIf(version));
  EXPECT_FALSE(VersionWord::Split(version, word.Stable()));
  EXPECT_TRUE(word.Unchanged(word.Stable()));
}

TEST(VersionWord, ASplitIsMoreThanAnInsertion) {
  VersionWord word;
  const auto version = word.Stable();
  word.Lock();
  word.MarkSplitting();
  word.Unlock();
  EXPECT_FALSE(word.Unchanged(version));
  EXPECT_TRUE(VersionWord::Split(version, word.Stable()));
}

// Who comes to a node between its mark and the change of what leads there has a version that says
// deleted. It must not write to the node, nor believe it.
TEST(VersionWord, ADeletedNodeIsNobodys) {
  VersionWord word;
  word.Lock();
  word.MarkDeleted();
  const auto version = word.Stable();
  EXPECT_FALSE(word.Unchanged(version));
  EXPECT_TRUE(VersionWord::Split(version, word.Stable()));
  word.Unlock();
  EXPECT_FALSE(word.LockIf(version));
  EXPECT_FALSE(word.LockIf(word.Stable()));
  EXPECT_FALSE(word.Unchanged(word.Stable()));
}

}  // namespace
}  // namespace crest
