// All interleavings of the protocol of moves, and that the search finds each mistake.
#include "move_model.h"

#include <gtest/gtest.h>

namespace strata::model {
namespace {

// What may run beside the collector: by the contract nobody reads a guide that its owner empties.
struct Scene {
  Freeing freeing;
  bool reader, writer, frees;
};
constexpr Scene kScenes[] = {
    {Freeing::kByOwner, true, true, false},
    {Freeing::kByOwner, false, false, true},
    {Freeing::kShared, true, false, true},
    {Freeing::kShared, true, true, true},
};

std::string FirstWrong(Mutant mutant) {
  for (const Scene& s : kScenes) {
    Model m(mutant, s.freeing, s.reader, s.writer, s.frees);
    if (std::string wrong = m.Search(); !wrong.empty()) return wrong;
  }
  return {};
}

TEST(MoveModel, NoInterleavingGoesWrong) {
  for (const Scene& s : kScenes) {
    Model m(Mutant::kNone, s.freeing, s.reader, s.writer, s.frees);
    EXPECT_EQ(m.Search(), "") << "scene " << &s - kScenes;
    EXPECT_TRUE(m.ever_moved());
    EXPECT_GT(m.states(), 20u);
  }
}

TEST(MoveModel, SomeMovesAreGivenUp) {
  Model m(Mutant::kNone, Freeing::kByOwner, true, true, false);
  EXPECT_EQ(m.Search(), "");
  EXPECT_TRUE(m.ever_aborted());
}

class MoveMutants : public testing::TestWithParam<Mutant> {};

TEST_P(MoveMutants, IsFound) { EXPECT_NE(FirstWrong(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(
    All, MoveMutants,
    testing::Values(Mutant::kReaderDoesNotList, Mutant::kReaderDoesNotLookAgain,
                    Mutant::kReaderLeavesTheLock, Mutant::kNoLookWhoUsesIt,
                    Mutant::kNoWaitForOldOperations, Mutant::kStoreInsteadOfExchange,
                    Mutant::kFreesOldBeforeExchange, Mutant::kReadsGuideWithoutOwnersLock,
                    Mutant::kOwnerSetAfterExchange, Mutant::kDisownWithoutLock,
                    Mutant::kFreesWithoutWaiting, Mutant::kLooksBeforeItLocks));

}  // namespace
}  // namespace strata::model
