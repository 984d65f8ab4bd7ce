// Every interleaving of short programs on a Hoard under threads' buffers, as it is preloaded:
// blocks that go home one by one or in chains from a buffer, while their superblock moves to the
// global heap, is taken from there, or goes back to the system.
#include "hoard_scene.h"

namespace strata::layers {
namespace {

// The buffers hold up to eight blocks and take or give four at once. The scenes below begin with a
// thread 0 that has taken eleven blocks: of superblock A of processor 0,
// where its buffer lies, a[1] to a[3], of B and C all four, the last of which it keeps, and d[0].
template <class Traits>
struct BufferedScene : Scene<Traits, true> {
  using Blocks = std::array<void*, 4>;
  std::array<Blocks, 4> TakeEleven() {
    const auto p = this->TakeAs(0, 11);
    const std::array<Blocks, 4> of{Blocks{nullptr, p[1], p[2], p[3]},
                                   {p[0], p[5], p[6], p[7]},
                                   {p[4], p[9], p[10], nullptr},
                                   {p[8], nullptr, nullptr, nullptr}};
    for (const Blocks& blocks : of) {
      for (const void* block : blocks) {
        EXPECT_TRUE(block == nullptr || RunOf(block) == RunOf(blocks[0] ? blocks[0] : blocks[1]));
      }
    }
    return of;
  }
  static uintptr_t RunOf(const void* p) { return AlignedRun<kUnit>::BaseOf(p); }
};

// Thread 0's free makes its buffer give four blocks, of C and B, and its processor part with D
// while the second thread frees D's only block and the third takes blocks.
template <class Traits>
struct BufferGivesWhileItMoves : BufferedScene<Traits> {
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(1, 1);
    this->TakeAs(2, 4);  // keeps none
    const auto [a, b, c, d] = this->TakeEleven();
    for (void* p : {a[1], a[2], a[3], b[1], b[2], c[1]}) this->FreeAs(0, p);
    return {this->Freeing(0, 0, c[2]), this->Freeing(1, 1, d[0]), this->Taking(2, 2)};
  }
};

// D is in the global heap, but for its only block, which thread 0 keeps. It gives that home while
// the second thread takes blocks and the third frees one of C.
template <class Traits>
struct KeptWhileItMoves : BufferedScene<Traits> {
  std::vector<Interleaver::Program> programs() {
    this->TakeAs(2, 1);
    this->TakeAs(1, 4);
    const auto [a, b, c, d] = this->TakeEleven();
    for (void* p : {d[0], a[1], a[2], b[1], a[3], c[1], c[2]}) this->FreeAs(0, p);
    return {this->Flushing(0, 0), this->Taking(1, 1), this->Freeing(2, 2, c[0])};
  }
};

TEST(HoardBuffersInterleave, BufferGivesWhileASuperblockMoves) {
  ExpectSoundIn<BufferGivesWhileItMoves<Modelled>>(Search::kSleepSets, 50);
}
TEST(HoardBuffersInterleave, BlockIsKeptWhileItsSuperblockMoves) {
  ExpectSoundIn<KeptWhileItMoves<Modelled>>(Search::kSleepSets, 39);
}
TEST(HoardBuffersInterleaveDeathTest, FindsABufferThatTrustsTheFirstOwner) {
  EXPECT_EXIT(SayWhatIsFound<BufferGivesWhileItMoves<Unchecked>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
  EXPECT_EXIT(SayWhatIsFound<KeptWhileItMoves<Unchecked>>(Search::kSleepSets),
              testing::ExitedWithCode(0), "found: a ");
}

}  // namespace
}  // namespace strata::layers
