// How much each class may hold on one vCPU: growth by steps within the limit, room taken by the
// clock hand, claims from the pool, and arrays that grow.
#include "cache/room_policy.h"

#include <gtest/gtest.h>

#include "fake_vcpus.h"

namespace strata::test {
namespace {

class RoomPolicyTest : public testing::Test {
 protected:
  RoomPolicyTest() { policy_.Init(f_.ops, &f_.transfer, &f_.pool, &f_.memory.arena()); }

  void SetLimit(size_t bytes) {
    LockHolder hold(v_.lock);
    v_.SetLimit(bytes);
  }
  bool Miss(SizeClass c) {
    v_.misses.NoteAlloc(c);
    return policy_.MakeRoom(v_, c);
  }
  size_t Hand() {
    LockHolder hold(v_.lock);
    return v_.clock_hand;
  }
  size_t Room(SizeClass c) { return v_.slab().header(c).room(); }
  size_t Fill(SizeClass c) { return v_.slab().header(c).fill(); }

  FakeVcpus f_{2};
  Vcpu& v_ = f_.Use(0, 1 << 20);
  RoomPolicy<FakeOps, FakeTransfer> policy_;
  const SizeClass small_ = ClassOfSize(64);
  const SizeClass large_ = ClassOfSize(4096);
  const SizeClass other_ = ClassOfSize(8192);
};

TEST_F(RoomPolicyTest, AClassBeginsInTheSlabAndGrowsByAQuarterOfABatch) {
  const size_t step = InfoOf(small_).batch / 4;
  ASSERT_GT(step, Slab::kFirstSlots);
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(small_), Slab::kFirstSlots);
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(small_), Slab::kFirstSlots + step);
  EXPECT_GE(v_.slab().header(small_).capacity, Room(small_));
  EXPECT_EQ(v_.room(), Room(small_) * 64);
}

TEST_F(RoomPolicyTest, AClassStopsAtItsSlots) {
  SetLimit(size_t{64} << 20);
  while (Miss(large_)) continue;
  EXPECT_EQ(Room(large_), InfoOf(large_).cpu_slots);
  EXPECT_EQ(v_.slab().header(large_).capacity, InfoOf(large_).cpu_slots);
}

TEST_F(RoomPolicyTest, GrowthIsCutToTheLimit) {
  SetLimit(5 * 64 + 10);
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(small_), 5u);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(Miss(small_));
  EXPECT_EQ(Room(small_), 5u);
}

TEST_F(RoomPolicyTest, AClassLargerThanTheLimitTakesNothing) {
  SetLimit(2 * 4096 - 1);
  f_.Open(v_, small_, 15, 15);
  f_.Open(v_, large_, 1, 1);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(Miss(other_));
  EXPECT_EQ(Room(small_), 15u);
  EXPECT_EQ(Room(large_), 1u);
}

// Else each sixteenth miss of a class that has all the room would look at all the others.
TEST_F(RoomPolicyTest, WhoHasAllTheRoomSearchesNone) {
  SetLimit(4 * 4096);
  f_.Open(v_, large_, 4, 4);
  const size_t hand = Hand();
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(Miss(large_));
  EXPECT_EQ(Hand(), hand);
  EXPECT_EQ(Room(large_), 4u);
}

TEST_F(RoomPolicyTest, ThePoolIsAskedBeforeOtherClassesAre) {
  SetLimit(4 * 4096);
  f_.Open(v_, large_, 4, 4);
  f_.pool.SetShare(1 << 20);
  f_.pool.Set(8192);
  EXPECT_TRUE(Miss(other_));
  EXPECT_EQ(Room(other_), 1u);
  EXPECT_EQ(Room(large_), 4u);
  EXPECT_EQ(v_.limit(), 4u * 4096 + 8192);
  EXPECT_EQ(f_.pool.bytes(), 0u);
}

TEST_F(RoomPolicyTest, AClassWithoutRoomHasSomeAtOnceWithTheObjectsSentDown) {
  SetLimit(8 * 4096);
  f_.Open(v_, large_, 8, 8);
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(large_), 4u);
  EXPECT_EQ(Fill(large_), 4u);
  EXPECT_EQ(f_.transfer.out(), 4u);
  EXPECT_GT(Room(small_), 0u);
  EXPECT_EQ(v_.room(), f_.RoomInSlab(v_));
}

TEST_F(RoomPolicyTest, TheLastSlotOfTheLastClassCanBeTaken) {
  const auto last = static_cast<SizeClass>(kNumClasses - 1);
  SetLimit(InfoOf(last).size);
  f_.Open(v_, last, 1, 1);
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(last), 0u);
  EXPECT_EQ(f_.transfer.out(), 0u);
}

TEST_F(RoomPolicyTest, HalfOfAClassIsTakenHoweverMuchLiesThere) {
  while (Room(small_) < kMaxBatch) ASSERT_TRUE(Miss(small_));
  const size_t room = Room(small_);
  SlabHeader& h = v_.slab().header(small_);
  for (size_t i = 0; i < room; ++i) ASSERT_EQ(f_.transfer.Take(small_, h.slots() + i, 1), 1u);
  SetFill(h, room);
  v_.misses.TakeLately(small_);
  SetLimit(v_.room());
  EXPECT_TRUE(Miss(ClassOfSize(8)));
  EXPECT_EQ(Room(small_), room / 2);
  EXPECT_EQ(f_.transfer.out(), room / 2);
}

TEST_F(RoomPolicyTest, OneWithRoomTakesAtOneMissInSixteen) {
  SetLimit(8 * 4096 + 64);
  f_.Open(v_, large_, 8, 0);
  f_.Open(v_, small_, 1, 0);
  int misses = 1;
  while (!Miss(small_)) ++misses;
  EXPECT_EQ(misses, 16);
  EXPECT_EQ(Room(large_), 4u);
}

TEST_F(RoomPolicyTest, TheHandSparesWhatMissedSinceItPassed) {
  SetLimit(8 * 4096 + 4 * 8192);
  f_.Open(v_, large_, 8, 0);
  f_.Open(v_, other_, 4, 0);
  v_.misses.NoteFree(large_);
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(large_), 8u);
  EXPECT_EQ(Room(other_), 2u);
  // Where all missed it goes round once more.
  for (const SizeClass c : {large_, other_, small_}) v_.misses.NoteFree(c);
  const size_t before = Room(large_) + Room(other_);
  EXPECT_TRUE(Miss(ClassOfSize(16384)));
  EXPECT_LT(Room(large_) + Room(other_), before);
}

TEST_F(RoomPolicyTest, WhereAllMissedOneTakingIsEnough) {
  SetLimit(8 * 4096 + 64);
  f_.Open(v_, large_, 8, 0);
  f_.Open(v_, small_, 1, 0);
  v_.misses.NoteFree(large_);
  for (int misses = 1; misses < 16; ++misses) EXPECT_FALSE(Miss(small_));
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(large_), 4u);
}

TEST_F(RoomPolicyTest, WhatLiesThereWhenTheThreadHasMovedStays) {
  SetLimit(8 * 4096);
  f_.Open(v_, large_, 8, 8);
  Vcpu& elsewhere = f_.Use(1, 1 << 20);
  f_.Open(elsewhere, large_, 8, 8);
  f_.cpus.current = 1;  // by the time that objects are popped
  EXPECT_FALSE(Miss(small_));
  EXPECT_EQ(Room(large_), 8u);
  EXPECT_EQ(Fill(large_), 8u);
  EXPECT_LT(elsewhere.slab().header(large_).fill(), 8u);
  EXPECT_EQ(v_.room(), f_.RoomInSlab(v_));
}

TEST_F(RoomPolicyTest, AStoppedClassStaysAsItIs) {
  f_.Open(v_, small_, 5, 0);
  v_.slab().Stop(small_);
  EXPECT_FALSE(Miss(small_));
  EXPECT_TRUE(v_.slab().IsStopped(small_));
  EXPECT_EQ(v_.room(), 5u * 64);
}

TEST_F(RoomPolicyTest, WhoFindsTheLockTakenGoesOnWithoutGrowing) {
  LockHolder hold(v_.lock);
  EXPECT_FALSE(policy_.MakeRoom(v_, small_));
  EXPECT_EQ(Room(small_), 0u);
}

TEST_F(RoomPolicyTest, WithoutMemoryAClassGrowsToTheEndOfItsArray) {
  f_.Open(v_, small_, Slab::kFirstSlots - 1, 3);
  f_.memory.fail = true;
  while (f_.memory.arena().Allocate(64, 64) != nullptr) {
  }
  EXPECT_TRUE(Miss(small_));
  EXPECT_EQ(Room(small_), Slab::kFirstSlots);
  EXPECT_FALSE(Miss(small_));
  EXPECT_EQ(v_.room(), Slab::kFirstSlots * 64);
}

TEST_F(RoomPolicyTest, AThreadThatMovedLeavesTheArrayAndOneThatStayedTakesItsPlace) {
  f_.Open(v_, small_, Slab::kFirstSlots, 3);
  const std::vector<void*> objects = f_.Objects(v_, small_);
  void** const array = v_.slab().header(small_).slots();
  f_.cpus.elsewhere = true;
  EXPECT_FALSE(Miss(small_));
  EXPECT_EQ(v_.slab().header(small_).slots(), array);
  EXPECT_FALSE(v_.slab().IsStopped(small_));
  f_.cpus.elsewhere = false;
  const size_t used = f_.memory.arena().used_bytes();
  EXPECT_TRUE(Miss(small_));
  EXPECT_NE(v_.slab().header(small_).slots(), array);
  EXPECT_EQ(f_.memory.arena().used_bytes(), used);  // what was made the first time
  EXPECT_EQ(f_.Objects(v_, small_), objects);
}

TEST_F(RoomPolicyTest, EachClassHasAnArrayOfItsOwn) {
  std::vector<void*> objects[2];
  const SizeClass classes[] = {small_, large_};
  for (size_t i = 0; i < 2; ++i) {
    f_.Open(v_, classes[i], Slab::kFirstSlots, Slab::kFirstSlots);
    objects[i] = f_.Objects(v_, classes[i]);
    EXPECT_TRUE(Miss(classes[i]));
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(f_.Objects(v_, classes[i]), objects[i]);
}

TEST_F(RoomPolicyTest, AnArrayLeftOverIsTakenOnlyWhereItIsLongEnough) {
  const SizeClass tiny = ClassOfSize(8);
  const SlabHeader& h = v_.slab().header(tiny);
  while (h.capacity <= Slab::kFirstSlots) ASSERT_TRUE(Miss(tiny));
  f_.Open(v_, small_, Slab::kFirstSlots, 0);
  f_.cpus.elsewhere = true;
  EXPECT_FALSE(Miss(small_));  // leaves one as long as the other class's is now
  f_.cpus.elsewhere = false;
  const size_t before = h.capacity;
  while (h.capacity == before) {
    ASSERT_TRUE(Miss(tiny));
    ASSERT_LE(Room(tiny), h.capacity);
  }
}

TEST_F(RoomPolicyTest, NoOtherMemoryLiesInAnArrayOrOneSlotBelow) {
  SetLimit(size_t{64} << 20);
  while (Miss(large_)) continue;
  const SlabHeader& h = v_.slab().header(large_);
  constexpr size_t kWords = 8;
  auto* const next = static_cast<void**>(f_.memory.arena().Allocate(kWords * sizeof(void*), 64));
  EXPECT_TRUE(next + kWords < h.slots() || next >= h.slots() + h.capacity);
}

}  // namespace
}  // namespace strata::test
