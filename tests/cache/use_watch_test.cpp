// What is remembered of a vCPU's slab from one look to the next: idleness, classes used, misses.
#include "cache/use_watch.h"

#include <gtest/gtest.h>

#include "../hugepage/test_arena.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

class UseWatchTest : public testing::Test {
 protected:
  UseWatchTest() {
    for (const SizeClass c : {small_, large_}) slab_.Make(c);
    slab_.Open(small_, Slab::kFirstSlots);
    slab_.Open(large_, Slab::kFirstSlots);
  }
  void* Object(SizeClass c) {
    void* p = nullptr;
    transfer_.Take(c, &p, 1);
    return p;
  }
  void Push(SizeClass c) { ASSERT_EQ(ops_.Push(c, Object(c)), PushResult::kPushed); }

  FakeTransfer transfer_;
  FakeCpus cpus_{1};
  FakeOps ops_{&cpus_};
  Slab& slab_ = cpus_.slab(0);
  const SizeClass small_ = ClassOfSize(64);
  const SizeClass large_ = ClassOfSize(4096);
};

TEST_F(UseWatchTest, IdleAtEachSoManiethLookWithoutAChange) {
  IdleWatch watch;
  Push(small_);
  EXPECT_FALSE(watch.Look(slab_, 2));  // new
  EXPECT_FALSE(watch.Look(slab_, 2));
  EXPECT_TRUE(watch.Look(slab_, 2));
  EXPECT_FALSE(watch.Look(slab_, 2));  // counted anew
  ASSERT_NE(ops_.Pop(small_), nullptr);
  EXPECT_FALSE(watch.Look(slab_, 2));
  EXPECT_FALSE(watch.Look(slab_, 2));
  EXPECT_TRUE(watch.Look(slab_, 2));
}

TEST_F(UseWatchTest, APushAndAPopThatLeaveTheFillAreUse) {
  IdleWatch watch;
  ClassUse seen;
  MissCounts misses;
  Push(small_);
  watch.Look(slab_, 1);
  seen.Remember(slab_, misses);
  EXPECT_FALSE(seen.Used(slab_, misses, small_));
  void* p = ops_.Pop(small_);
  ASSERT_EQ(ops_.Push(small_, p), PushResult::kPushed);
  EXPECT_FALSE(watch.Look(slab_, 1));
  EXPECT_TRUE(seen.Used(slab_, misses, small_));
  EXPECT_FALSE(seen.Missed(misses, small_));
}

TEST_F(UseWatchTest, OppositeChangesInTwoClassesAreUse) {
  IdleWatch watch;
  Push(small_);
  watch.Look(slab_, 1);
  SetFill(slab_.header(small_), 0);
  SetFill(slab_.header(large_), 1);
  EXPECT_FALSE(watch.Look(slab_, 1));
}

TEST_F(UseWatchTest, MissesCountFromWhatWasRemembered) {
  ClassUse seen;
  MissCounts misses;
  misses.NoteAlloc(small_);
  seen.Remember(slab_, misses);
  EXPECT_EQ(seen.MissesOfAll(misses), 0u);
  misses.NoteFree(small_);
  misses.NoteAlloc(large_);
  misses.NoteAlloc(large_);
  EXPECT_EQ(seen.MissesOfAll(misses), 3u);
  EXPECT_TRUE(seen.Missed(misses, small_));
  EXPECT_TRUE(seen.Used(slab_, misses, large_));
  EXPECT_FALSE(seen.Used(slab_, misses, ClassOfSize(8)));
  EXPECT_EQ(misses.allocs(large_), 2u);
  EXPECT_EQ(misses.frees(large_), 0u);
  EXPECT_EQ(misses.both(small_), 2u);
}

TEST_F(UseWatchTest, AMissIsLateOnce) {
  MissCounts misses;
  EXPECT_FALSE(misses.TakeLately(small_));
  misses.NoteFree(small_);
  EXPECT_TRUE(misses.TakeLately(small_));
  EXPECT_FALSE(misses.TakeLately(small_));
}

TEST_F(UseWatchTest, AMissIsARepetitionAfterOneOfItsKindInItsClass) {
  MissCounts misses;
  EXPECT_FALSE(misses.NoteFree(small_));
  EXPECT_FALSE(misses.NoteAlloc(small_));
  EXPECT_FALSE(misses.NoteAlloc(large_));
  EXPECT_TRUE(misses.NoteAlloc(small_));
  EXPECT_FALSE(misses.NoteFree(small_));
  EXPECT_TRUE(misses.NoteFree(small_));
}

}  // namespace
}  // namespace strata::test
