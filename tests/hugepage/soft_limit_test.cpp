// SoftLimit: when the kernel is wanted, what its answer allows, and what is wanted back.
#include "hugepage/soft_limit.h"

#include <gtest/gtest.h>

#include <functional>

namespace strata {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr Pages kStep{512};  // of the heap below: 4 MiB

// What a look asks of the page heap, and an answer of the kernel's.
struct FakeHeap {
  struct {
    int64_t Headroom() const { return answer(); }
    std::function<int64_t()> answer;
  } kernel;
  Lock lock{LockRank::kPageHeap};
  Pages charged{64 * kStep.raw()};

  Pages Charged() const STRATA_REQUIRES(lock) { return charged; }
};

struct SoftLimitTest : testing::Test {
  // Looks with so much room left; what is wanted goes back up to `most`.
  void Look(int64_t room, Pages untouched = Pages(0), size_t most = SIZE_MAX) {
    heap.kernel.answer = [room] { return room; };
    LockHolder hold(heap.lock);
    limit.Look(heap, untouched, [&](Pages n) {
      wanted = n;
      const size_t released = std::min(BytesOf(n), most);
      heap.charged -= Pages(released >> kPageShift);
      return released;
    });
  }
  static int64_t Steps(int64_t n) { return n * static_cast<int64_t>(BytesOf(kStep)); }
  // How much may still be taken before the next look.
  void ExpectAllowance(Pages more) {
    EXPECT_FALSE(limit.Due(heap.charged + more));
    EXPECT_TRUE(limit.Due(heap.charged + more + Pages(1)));
  }

  FakeHeap heap;
  SoftLimit limit;
  Pages wanted{0};
};

TEST_F(SoftLimitTest, ASmallProgramNeverLooks) {
  heap.charged = Pages(0);
  ExpectAllowance(Pages(8 * kMiB >> kPageShift));
}

TEST_F(SoftLimitTest, WithoutALimitNobodyLooksAgain) {
  Look(Steps(1));
  EXPECT_TRUE(limit.near_soft_limit());
  Look(INT64_MAX);
  EXPECT_FALSE(limit.near_soft_limit() || limit.Due(Pages(size_t{1} << 40)));
}

TEST_F(SoftLimitTest, FarAwayAQuarterOfTheRoomIsTakenBeforeTheNextLook) {
  Look(Steps(100));
  EXPECT_FALSE(limit.near_soft_limit());
  EXPECT_EQ(wanted, Pages(0));
  ExpectAllowance(kStep * 25);
}

TEST_F(SoftLimitTest, IsNearBelowFourStepsAndActsBelowOne) {
  Look(Steps(4));
  EXPECT_FALSE(limit.near_soft_limit());
  Look(Steps(4) - 1);
  EXPECT_TRUE(limit.near_soft_limit());
  Look(Steps(1));
  EXPECT_EQ(wanted, Pages(0));
  ExpectAllowance(kStep);
  EXPECT_EQ(limit.hits(), 0u);
  Look(Steps(1) - 1);
  EXPECT_EQ(wanted, kStep + Pages(1)) << "up to two steps of room";
  EXPECT_EQ(limit.hits(), 1u);
  EXPECT_EQ(limit.relief_wanted(), 0u);
  ExpectAllowance(kStep);
}

TEST_F(SoftLimitTest, LooksSoonAgainOnceItIsOver) {
  Look(-Steps(3));
  EXPECT_EQ(wanted, kStep * 5);
  ExpectAllowance(kStep / 4);
}

TEST_F(SoftLimitTest, CountsWhatWasHandedOutAndNotTouchedYet) {
  Look(Steps(2), kStep);
  EXPECT_EQ(wanted, Pages(0));
  Look(Steps(2), kStep + Pages(1));
  EXPECT_EQ(wanted, kStep + Pages(1));
}

TEST_F(SoftLimitTest, StepsOfASmallHeapAreAMebibyte) {
  heap.charged = Pages(1024);
  Look(kMiB);
  EXPECT_EQ(wanted, Pages(0));
  Look(kMiB - 1);
  EXPECT_EQ(BytesOf(wanted), kMiB + kPageSize);
}

TEST_F(SoftLimitTest, WantsFromOthersWhatThePageHeapDoesNotHave) {
  Look(0, Pages(0), BytesOf(kStep));
  EXPECT_EQ(limit.relief_wanted(), BytesOf(kStep));
  EXPECT_EQ(limit.TakeReliefWanted(), BytesOf(kStep));
  EXPECT_EQ(limit.relief_wanted(), 0u);
}

TEST_F(SoftLimitTest, AsksWithoutTheLockAndOneAtATime) {
  size_t looks = 0;
  heap.kernel.answer = [&] {
    ++looks;
    EXPECT_FALSE(heap.lock.HeldByThisThread());
    EXPECT_FALSE(limit.Due(Pages(size_t{1} << 40)));
    return Steps(100);
  };
  LockHolder hold(heap.lock);
  limit.Look(heap, Pages(0), [](Pages) { return size_t{0}; });
  EXPECT_EQ(looks, 1u);
  EXPECT_TRUE(limit.Due(Pages(size_t{1} << 40)));
}

TEST_F(SoftLimitTest, AChildLooksThoughItsParentWasLooking) {
  heap.kernel.answer = [&] {
    limit.Recover(heap.charged);
    ExpectAllowance(Pages(8 * kMiB >> kPageShift));
    return Steps(100);
  };
  LockHolder hold(heap.lock);
  limit.Look(heap, Pages(0), [](Pages) { return size_t{0}; });
  limit.Recover(heap.charged);
  ExpectAllowance(kStep * 25);
}

}  // namespace
}  // namespace strata
