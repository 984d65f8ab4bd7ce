// Every interleaving of short programs on a Hoard: blocks freed while their superblock moves to the
// global heap, is taken from there, or goes back to the system, and a search of the global heap's
// shards while superblocks move between them.
#include "hoard_scene.h"

namespace strata::layers {
namespace {

// The first free makes processor 0 part with a superblock, the second is of a block in it.
template <class Traits>
struct FreeWhileItMoves : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    return {this->Freeing(0, 0, blocks[0]), this->Freeing(1, 1, blocks[1])};
  }
};

// And a third takes a block as another processor, which may be from that superblock.
template <class Traits>
struct FreeWhileItMovesOn : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    return {this->Freeing(0, 0, blocks[0]), this->Freeing(1, 1, blocks[1]), this->Taking(2, 2)};
  }
};

// Two free the last two blocks of a superblock in the global heap, a third would like to have it.
template <class Traits>
struct EmptiedWhileItIsTaken : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    this->FreeAs(0, blocks[0]);  // its superblock is in the global heap now
    return {this->Freeing(0, 0, blocks[1]), this->Taking(1, 1), this->Freeing(2, 2, blocks[2])};
  }
};

// All three free blocks of one superblock, two of whom may make its owner part with it.
template <class Traits>
struct ThreeFreeTogether : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(0);
    return {this->Freeing(0, 0, blocks[0]), this->Freeing(1, 1, blocks[1]),
            this->Freeing(2, 2, blocks[2])};
  }
};

// Shard 1 has a superblock. While the first program searches shard 0 and then 1, the second takes
// that one and the third puts another into shard 0: there is always one, but not where it looks.
template <class Traits>
struct MovedBehindItsBack : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto of_2 = this->AtTheEdge(2);
    auto of_1 = this->AtTheEdge(1);
    this->FreeAs(1, of_1[0]);
    this->TakeAs(1, 2);  // 1 has no room any more
    return {this->Taking(0, 0), this->Taking(1, 1), this->Freeing(2, 2, of_2[0])};
  }
};

// Processor 0 is full, 1 has as much as it may keep, and of a third superblock, in the global heap,
// the only block is freed while 0 takes one: it must not find the superblock nowhere.
template <class Traits>
struct EmptiedWhileAnotherGrows : Scene<Traits> {
  EmptiedWhileAnotherGrows() : Scene<Traits>(2) {}
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(0, this->kObjects);
    auto blocks = this->AtTheEdge(1);
    for (void* p : {blocks[0], blocks[2], blocks[3]}) this->FreeAs(1, p);
    return {this->Taking(0, 0), this->Freeing(1, 1, blocks[1])};
  }
};

// Processors 0 and 2 are full, 1 has a superblock with one block left, and there is a spare of 2's.
// While 0 looks for one, 2 takes that and 1 puts its own: there is always one, but not where 0
// looks.
template <class Traits>
struct SpareMovedBehindItsBack : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(0, this->kObjects);
    auto of_1 = this->TakeAs(1, this->kObjects);
    auto of_2 = this->TakeAs(2, 2 * this->kObjects);
    for (size_t i = 0; i < this->kObjects; ++i) this->FreeAs(2, of_2[i]);
    for (size_t i = 1; i < this->kObjects; ++i) this->FreeAs(1, of_1[i]);
    return {this->Taking(0, 0), this->Freeing(1, 1, of_1[0]), this->Taking(2, 2)};
  }
};

// Processor 0 has no superblock and borrows one of 1's two, which others free into meanwhile: 1
// parts with one, lends one, or both.
template <class Traits>
struct LentWhileItIsFreedInto : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(1);
    return {this->Taking(0, 0), this->Freeing(1, 1, blocks[2])};
  }
};
template <class Traits>
struct LentWhileTwoFreeIntoIt : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    auto blocks = this->AtTheEdge(1);
    return {this->Taking(0, 0), this->Freeing(1, 1, blocks[2]), this->Freeing(2, 2, blocks[3])};
  }
};

// Two would like what a third has.
template <class Traits>
struct LentToOneOfTwo : Scene<Traits> {
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(1, 2);
    return {this->Taking(0, 0), this->Taking(1, 2)};
  }
};

// Both are full, and each asks the other.
template <class Traits>
struct EachAsksTheOther : Scene<Traits> {
  EachAsksTheOther() : Scene<Traits>(2) {}
  std::vector<Interleaver::Program> programs() {
    for (const size_t who : {0, 1}) this->TakeAs(who, this->kObjects);
    return {this->Taking(0, 0), this->Taking(1, 1)};
  }
};

TEST(HoardInterleave, FreeWhileASuperblockMovesOn) {
  ExpectSoundIn<FreeWhileItMovesOn<Modelled>>(Search::kSleepSets, 62);
}
TEST(HoardInterleave, EmptiedWhileAnotherGrows) {
  ExpectSoundIn<EmptiedWhileAnotherGrows<Modelled>>(Search::kEverything, 468);
}
TEST(HoardInterleave, EmptiedWhileItIsTaken) {
  ExpectSoundIn<EmptiedWhileItIsTaken<Modelled>>(Search::kSleepSets, 4);
}
TEST(HoardInterleave, SpareMovedBehindItsBack) {
  ExpectSoundIn<SpareMovedBehindItsBack<Sparing>>(Search::kSleepSets, 18);
}
TEST(HoardInterleave, MovedBehindItsBack) {
  ExpectSoundIn<MovedBehindItsBack<Modelled>>(Search::kSleepSets, 18);
}

TEST(HoardInterleave, LentWhileItIsFreedInto) {
  ExpectSoundIn<LentWhileItIsFreedInto<Borrowing>>(Search::kSleepSets, 7);
}
TEST(HoardInterleave, LentWhileTwoFreeIntoIt) {
  ExpectSoundIn<LentWhileTwoFreeIntoIt<Borrowing>>(Search::kSleepSets, 96);
}
TEST(HoardInterleave, LentToOneOfTwo) {
  ExpectSoundIn<LentToOneOfTwo<Borrowing>>(Search::kSleepSets, 13);
}
TEST(HoardInterleave, EachAsksTheOther) {
  ExpectSoundIn<EachAsksTheOther<Borrowing>>(Search::kSleepSets, 84);
}

// Every schedule there is; and sleep sets leave out none that matters.
TEST(HoardInterleave, FreeWhileASuperblockMoves) {
  EXPECT_EQ(ExpectSoundIn<FreeWhileItMoves<Modelled>>(Search::kSleepSets, 4).states,
            ExpectSoundIn<FreeWhileItMoves<Modelled>>(Search::kEverything, 60).states);
}
TEST(HoardInterleave, ThreeFreeTogether) {
  EXPECT_EQ(ExpectSoundIn<ThreeFreeTogether<Modelled>>(Search::kSleepSets, 8).states,
            ExpectSoundIn<ThreeFreeTogether<Modelled>>(Search::kEverything, 28'446).states);
}

TEST(HoardInterleaveDeathTest, FindsAFreeThatTrustsTheFirstOwner) {
  EXPECT_EXIT(SayWhatIsFound<FreeWhileItMoves<Unchecked>>(Search::kEverything),
              testing::ExitedWithCode(0), "found: a ");
  EXPECT_EXIT(SayWhatIsFound<FreeWhileItMoves<Unchecked>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
}
TEST(HoardInterleaveDeathTest, FindsAFreeThatTrustsTheLender) {
  EXPECT_EXIT(SayWhatIsFound<LentWhileItIsFreedInto<UncheckedBorrowing>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
}
TEST(HoardInterleaveDeathTest, FindsASearchThatTrustsWhatItSaw) {
  EXPECT_EXIT(SayWhatIsFound<MovedBehindItsBack<Blind>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: memory taken beside a superblock");
  EXPECT_EXIT(SayWhatIsFound<SpareMovedBehindItsBack<BlindSparing>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: memory taken beside a superblock");
}

}  // namespace
}  // namespace strata::layers
