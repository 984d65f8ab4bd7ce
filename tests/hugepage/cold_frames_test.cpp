// ColdFrames: what makes frames cold, what makes them warm again, and for how long either holds.
#include "hugepage/cold_frames.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr uint64_t kFastNs = 1'000'000, kSlowNs = 1'000'001;

TEST(ColdFrames, AreNotToBeginWith) { EXPECT_FALSE(ColdFrames{}.likely(0)); }

TEST(ColdFrames, ASlowTouchTellsForAMinuteAndAFastOneEndsIt) {
  ColdFrames cold;
  cold.NoteTouch(kFastNs, 5);
  EXPECT_FALSE(cold.likely(5));
  cold.NoteTouch(kSlowNs, 5);
  EXPECT_TRUE(cold.likely(5) && cold.likely(64));
  EXPECT_FALSE(cold.likely(65));
  cold.NoteTouch(kFastNs, 6);
  EXPECT_FALSE(cold.likely(6));
}

}  // namespace
}  // namespace strata
