// Taking objects and room from a vCPU from outside: what is stopped, fenced and changed in which
// order, sequences in flight at each fence, and fences that are refused.
#include "cache/remote_drain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_vcpus.h"

namespace strata::test {
namespace {

class RemoteDrainTest : public testing::Test {
 protected:
  RemoteDrainTest() { drain_.Init(f_.ops, &f_.transfer); }

  bool Lower(size_t limit) {
    LockHolder hold(v_.lock);
    return drain_.LowerLimit(v_, limit);
  }
  void DropIdle() {
    LockHolder hold(v_.lock);
    drain_.DropIdleClasses(v_);
  }
  // "open" or "stopped" with bound and fill, at each fence.
  void LogFences(SizeClass c) {
    f_.cpus.on_fence = [this, c] {
      const SlabHeader& h = v_.slab().header(c);
      log_.push_back(
          (v_.slab().IsStopped(c) ? "stopped " : "open " + std::to_string(h.room()) + " ") +
          std::to_string(h.fill()));
    };
  }
  // What a sequence that had seen the bounds before the fence may have done by then.
  void PopAtFence(size_t fence, SizeClass c, size_t n = 1) {
    f_.cpus.on_fence = [this, fence, c, n] {
      if (f_.cpus.fences != fence) return;
      SlabHeader& h = v_.slab().header(c);
      popped_ = h.slots()[h.fill() - 1];
      SetFill(h, h.fill() - n);
    };
  }
  size_t Fill(SizeClass c) { return v_.slab().header(c).fill(); }
  size_t Room(SizeClass c) { return v_.slab().header(c).room(); }

  static constexpr size_t kLimit = 1 << 20;
  FakeVcpus f_{1};
  Vcpu& v_ = f_.Use(0, kLimit);
  RemoteDrain<FakeOps, FakeTransfer> drain_;
  std::vector<std::string> log_;
  void* popped_ = nullptr;
  const SizeClass small_ = ClassOfSize(64);
  const SizeClass large_ = ClassOfSize(4096);
};

TEST_F(RemoteDrainTest, ADrainFencesBeforeItLooksAndAfterItChanged) {
  f_.Open(v_, small_, 15, 10);
  f_.Open(v_, large_, 4, 2);
  LogFences(small_);
  EXPECT_EQ(drain_.Drain(v_), 10u * 64 + 2 * 4096);
  EXPECT_EQ(log_, (std::vector<std::string>{"stopped 10", "stopped 0"}));
  EXPECT_EQ(f_.transfer.out(), 0u);
  EXPECT_EQ(v_.room(), 0u);
  EXPECT_FALSE(v_.slab().IsStopped(small_));
  EXPECT_EQ(drain_.Drain(v_), 0u);
  EXPECT_EQ(log_.size(), 2u);
}

TEST_F(RemoteDrainTest, UntilADrainIsOverNoClassCanBePushedOrPopped) {
  std::vector<SizeClass> classes;
  for (size_t i = 1; i < kNumClasses; ++i) classes.push_back(static_cast<SizeClass>(i));
  for (const SizeClass c : classes) f_.Open(v_, c, 3, 1);
  size_t done = 0;
  f_.cpus.on_fence = [&] {
    for (const SizeClass c : classes) {
      done += f_.ops.Pop(c) != nullptr;
      done += f_.ops.Push(c, &done) == PushResult::kPushed;
    }
  };
  drain_.Drain(v_);
  EXPECT_EQ(done, 0u);
  for (const SizeClass c : classes) EXPECT_FALSE(v_.slab().IsStopped(c)) << InfoOf(c).size;
}

TEST_F(RemoteDrainTest, WhatWasPoppedBeforeTheFenceIsNotSentDown) {
  f_.Open(v_, small_, 15, 10);
  PopAtFence(1, small_);
  EXPECT_EQ(drain_.Drain(v_), 9u * 64);
  EXPECT_TRUE(f_.transfer.IsOut(popped_));
  EXPECT_EQ(f_.transfer.out(), 1u);
}

TEST_F(RemoteDrainTest, ARefusedFirstFenceOfADrainLeavesAllAsItWas) {
  f_.Open(v_, small_, 15, 10);
  v_.slab().Stop(large_);  // since another fence was refused
  f_.cpus.refuse_fence = 1;
  EXPECT_EQ(drain_.Drain(v_), 0u);
  EXPECT_FALSE(v_.slab().IsStopped(small_));
  EXPECT_TRUE(v_.slab().IsStopped(large_));
  EXPECT_EQ(Room(small_), 15u);
  EXPECT_EQ(Fill(small_), 10u);
  EXPECT_EQ(v_.room(), 15u * 64);
  EXPECT_EQ(drain_.Drain(v_), 10u * 64);  // the next one has them
  EXPECT_EQ(v_.room(), 0u);
}

TEST_F(RemoteDrainTest, ARefusedSecondFenceOfADrainKeepsTheEmptySlabStopped) {
  f_.Open(v_, small_, 15, 10);
  f_.cpus.refuse_fence = 2;
  EXPECT_EQ(drain_.Drain(v_), 10u * 64);
  EXPECT_TRUE(v_.slab().IsStopped(small_));
  EXPECT_EQ(v_.room(), 15u * 64);
  EXPECT_EQ(drain_.Drain(v_), 0u);
  EXPECT_FALSE(v_.slab().IsStopped(small_));
  EXPECT_EQ(v_.room(), 0u);
}

TEST_F(RemoteDrainTest, WhereFencesAreForbiddenNothingIsStopped) {
  f_.Open(v_, small_, 15, 10);
  f_.cpus.fence_forbidden = true;
  EXPECT_FALSE(drain_.MayFence());
  EXPECT_EQ(drain_.Drain(v_), 0u);
  EXPECT_FALSE(v_.slab().IsStopped(small_));
  EXPECT_EQ(f_.cpus.fences, 0u);
}

TEST_F(RemoteDrainTest, AShrinkStopsOnlyWhatHoldsMoreThanItKeeps) {
  f_.Open(v_, small_, 15, 10);
  f_.Open(v_, large_, 4, 3);
  const std::vector<void*> before = f_.Objects(v_, large_);
  LogFences(large_);
  const size_t limit = v_.room() - 2 * 4096;
  EXPECT_TRUE(Lower(limit));
  // Pushes first; then pops too; and once more after the change.
  EXPECT_EQ(log_, (std::vector<std::string>{"open 2 3", "stopped 3", "stopped 2"}));
  EXPECT_EQ(v_.limit(), limit);
  EXPECT_EQ(v_.room(), f_.RoomInSlab(v_));
  EXPECT_EQ(Room(large_), 2u);
  EXPECT_EQ(Fill(small_), 10u);
  EXPECT_EQ(f_.Objects(v_, large_), (std::vector<void*>{before[1], before[2]}));  // the newest
  EXPECT_FALSE(f_.transfer.IsOut(before[0]));
}

TEST_F(RemoteDrainTest, AShrinkSparesWhatMissedSinceTheLastRound) {
  const SizeClass middle = ClassOfSize(1024);
  f_.Open(v_, middle, 8, 0);
  f_.Open(v_, large_, 4, 0);
  v_.seen.Remember(v_.slab(), v_.misses);
  v_.misses.NoteFree(large_);
  EXPECT_TRUE(Lower(v_.room() - 4096));
  EXPECT_EQ(Room(large_), 4u);
  EXPECT_EQ(Room(middle), 4u);
}

TEST_F(RemoteDrainTest, FreeRoomGoesWithOneFenceAndNobodyIsStopped) {
  f_.Open(v_, large_, 4, 2);
  LogFences(large_);
  EXPECT_TRUE(Lower(2 * 4096));
  EXPECT_EQ(log_, (std::vector<std::string>{"open 2 2"}));
  EXPECT_EQ(v_.room(), 2u * 4096);
  EXPECT_EQ(Fill(large_), 2u);
}

TEST_F(RemoteDrainTest, APushThatSawTheOldBoundIsNoticedByTheShrink) {
  f_.Open(v_, large_, 4, 2);
  f_.cpus.on_fence = [this] {
    if (f_.cpus.fences != 1) return;
    SlabHeader& h = v_.slab().header(large_);
    f_.transfer.Take(large_, h.slots() + h.fill(), 1);
    SetFill(h, h.fill() + 1);
  };
  EXPECT_TRUE(Lower(2 * 4096));
  EXPECT_EQ(Fill(large_), 2u);
  EXPECT_EQ(Room(large_), 2u);
  EXPECT_EQ(f_.transfer.out(), 2u);
}

TEST_F(RemoteDrainTest, APopThatSawTheOldBoundLeavesLessToCut) {
  f_.Open(v_, large_, 4, 4);
  PopAtFence(2, large_);
  EXPECT_TRUE(Lower(2 * 4096));
  EXPECT_EQ(Fill(large_), 2u);
  EXPECT_TRUE(f_.transfer.IsOut(popped_));
  EXPECT_EQ(f_.transfer.out(), 3u);
  PopAtFence(5, large_, 2);  // below what it keeps by then
  EXPECT_TRUE(Lower(4096));
  EXPECT_EQ(Fill(large_), 0u);
  EXPECT_EQ(Room(large_), 1u);
}

TEST_F(RemoteDrainTest, ARefusedFirstOrSecondFenceOfAShrinkChangesNothing) {
  f_.Open(v_, large_, 4, 4);
  for (size_t fence : {1, 2}) {
    f_.cpus.fences = 0;
    f_.cpus.refuse_fence = fence;
    EXPECT_FALSE(Lower(4096));
    EXPECT_EQ(v_.limit(), kLimit);
    EXPECT_EQ(v_.room(), 4u * 4096);
    EXPECT_EQ(Room(large_), 4u);
    EXPECT_EQ(Fill(large_), 4u);
    EXPECT_FALSE(v_.slab().IsStopped(large_));
  }
}

TEST_F(RemoteDrainTest, ARefusedThirdFenceKeepsTheClassStoppedAndTheRoomOnTheBooks) {
  f_.Open(v_, large_, 4, 4);
  f_.cpus.refuse_fence = 3;
  EXPECT_FALSE(Lower(4096));
  EXPECT_TRUE(v_.slab().IsStopped(large_));
  EXPECT_EQ(v_.room(), 4u * 4096);
  EXPECT_EQ(v_.limit(), kLimit);
  EXPECT_EQ(drain_.Drain(v_), 4096u);
  EXPECT_EQ(v_.room(), 0u);
  EXPECT_EQ(f_.transfer.out(), 0u);
}

// Nobody knows then what may still see its old fill, and its room is on the books until a drain.
TEST_F(RemoteDrainTest, AClassLeftStoppedStaysSoWhenOthersShrink) {
  f_.Open(v_, small_, 15, 15);
  f_.Open(v_, large_, 4, 4);
  f_.cpus.refuse_fence = 3;
  EXPECT_FALSE(Lower(v_.room() - 4096));
  ASSERT_TRUE(v_.slab().IsStopped(large_));
  const size_t room = v_.room();
  EXPECT_TRUE(Lower(room - 5 * 64));
  EXPECT_EQ(Room(small_), 10u);
  EXPECT_TRUE(v_.slab().IsStopped(large_));
  EXPECT_EQ(v_.room(), room - 5 * 64);
}

TEST_F(RemoteDrainTest, ALimitAboveTheRoomNeedsNoFence) {
  f_.Open(v_, large_, 4, 4);
  EXPECT_TRUE(Lower(4 * 4096));
  EXPECT_EQ(v_.limit(), 4u * 4096);
  EXPECT_TRUE(Lower(kLimit));  // it only lowers
  EXPECT_EQ(v_.limit(), 4u * 4096);
  EXPECT_EQ(f_.cpus.fences, 0u);
}

TEST_F(RemoteDrainTest, IdleClassesLoseTheirRoomIfThatIsWorthAFence) {
  f_.Open(v_, small_, 15, 10);
  f_.Open(v_, large_, 3, 3);
  v_.seen.Remember(v_.slab(), v_.misses);
  DropIdle();
  EXPECT_EQ(f_.cpus.fences, 0u);  // 13 KiB
  {
    LockHolder hold(v_.lock);
    v_.DropRoom(Room(large_) * 4096);
  }
  f_.Open(v_, large_, 4, 1);
  v_.seen.Remember(v_.slab(), v_.misses);
  ASSERT_NE(f_.ops.Pop(small_), nullptr);
  DropIdle();
  EXPECT_EQ(Room(large_), 0u);
  EXPECT_EQ(Room(small_), 15u);  // was used
  EXPECT_EQ(Fill(small_), 9u);
  EXPECT_EQ(v_.room(), f_.RoomInSlab(v_));
}

}  // namespace
}  // namespace strata::test
