// Objects between one vCPU and the tier below: how many move, which ones, and what a thread that is
// moved in between leaves behind.
#include "cache/local_exchange.h"

#include <gtest/gtest.h>

#include <vector>

#include "fake_vcpus.h"

namespace strata::test {
namespace {

// A tier that makes spans of what it is given.
struct FakeSpans {
  FakeTransfer* transfer;
  size_t gives = 0;
  void Give(SizeClass c, void* const* objects, size_t n) {
    ++gives;
    transfer->Give(c, objects, n);
  }
};

class LocalExchangeTest : public testing::Test {
 protected:
  LocalExchangeTest() { exchange_.Init(f_.ops, &f_.transfer); }
  // More slots than lie in the slab.
  void OpenLong() {
    SlabHeader& h = v_.slab().header(c_);
    h.array.store(array_ + 1);
    h.capacity = 255;
    v_.slab().Open(c_, 255);
  }
  size_t Fill(size_t cpu = 0) { return f_.cpus.slab(cpu).header(c_).fill(); }

  FakeVcpus f_{2};
  Vcpu& v_ = f_.Use(0, 1 << 20);
  LocalExchange<FakeOps, FakeTransfer> exchange_;
  const SizeClass c_ = ClassOfSize(64);
  void* array_[256] = {};
};

TEST_F(LocalExchangeTest, ARefillReturnsOneAndKeepsTheOthers) {
  f_.Open(v_, c_, 15, 0);
  void* p = exchange_.Refill(c_, 6);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(Fill(), 5u);
  EXPECT_EQ(f_.transfer.out(), 6u);
  for (void* other : f_.Objects(v_, c_)) EXPECT_NE(other, p);
  EXPECT_EQ(f_.transfer.gives, 0u);
}

TEST_F(LocalExchangeTest, WhatARefillHasNoRoomForGoesBack) {
  f_.Open(v_, c_, 3, 0);
  ASSERT_NE(exchange_.Refill(c_, 8), nullptr);
  EXPECT_EQ(Fill(), 3u);
  EXPECT_EQ(f_.transfer.out(), 4u);
}

TEST_F(LocalExchangeTest, TheOneObjectTooManyGoesBackToo) {
  f_.Open(v_, c_, 6, 0);
  ASSERT_NE(exchange_.Refill(c_, 8), nullptr);
  EXPECT_EQ(Fill(), 6u);
  EXPECT_EQ(f_.transfer.out(), 7u);
}

TEST_F(LocalExchangeTest, ALongRefillStopsWhenThereIsNoMoreRoom) {
  f_.Open(v_, c_, 10, 0);
  ASSERT_NE(exchange_.Refill(c_, 128), nullptr);
  EXPECT_EQ(f_.transfer.takes, 1u);
  EXPECT_EQ(f_.transfer.out(), 11u);
}

TEST_F(LocalExchangeTest, ALongOverflowGoesDownInPieces) {
  OpenLong();
  ASSERT_NE(exchange_.Refill(c_, 128), nullptr);
  void* p = nullptr;
  f_.transfer.Take(c_, &p, 1);
  EXPECT_TRUE(exchange_.Overflow(c_, p, 100));
  EXPECT_EQ(f_.transfer.gives, 2u);
  EXPECT_EQ(Fill(), 27u);
  EXPECT_FALSE(f_.transfer.IsOut(p));
}

TEST_F(LocalExchangeTest, ARefillOfOneTouchesNoSlab) {
  f_.Open(v_, c_, 15, 0);
  ASSERT_NE(exchange_.Refill(c_, 1), nullptr);
  EXPECT_EQ(Fill(), 0u);
  EXPECT_EQ(f_.transfer.out(), 1u);
}

TEST_F(LocalExchangeTest, ALongRefillComesInPiecesAndStopsWhereTheTierBelowDoes) {
  OpenLong();
  ASSERT_NE(exchange_.Refill(c_, 128), nullptr);
  EXPECT_EQ(f_.transfer.takes, 2u);
  EXPECT_EQ(Fill(), 127u);
  f_.transfer.limit = f_.transfer.out() + 3;
  ASSERT_NE(exchange_.Refill(c_, 128), nullptr);
  EXPECT_EQ(f_.transfer.takes, 3u);
  EXPECT_EQ(Fill(), 129u);
  EXPECT_EQ(exchange_.Refill(c_, 128), nullptr);
}

TEST_F(LocalExchangeTest, AnOverflowSendsTheObjectAndTheNewestDown) {
  f_.Open(v_, c_, 15, 15);
  void* p = nullptr;
  f_.transfer.Take(c_, &p, 1);
  const std::vector<void*> before = f_.Objects(v_, c_);
  EXPECT_TRUE(exchange_.Overflow(c_, p, 10));
  EXPECT_EQ(f_.Objects(v_, c_), std::vector<void*>(before.begin(), before.begin() + 5));
  EXPECT_FALSE(f_.transfer.IsOut(p));
  EXPECT_FALSE(f_.transfer.IsOut(before[14]));
  EXPECT_EQ(f_.cpus.marked, std::vector<void*>{p}) << "the others were when they came";
  EXPECT_EQ(f_.transfer.out(), 5u);
  EXPECT_EQ(f_.transfer.gives, 1u);
}

TEST_F(LocalExchangeTest, WithRoomForOneTheNewerStays) {
  f_.Open(v_, c_, 1, 1);
  void* p = nullptr;
  f_.transfer.Take(c_, &p, 1);
  const void* older = f_.Objects(v_, c_)[0];
  EXPECT_TRUE(exchange_.Overflow(c_, p, 1));
  EXPECT_EQ(f_.Objects(v_, c_), std::vector<void*>{p});
  EXPECT_EQ(f_.transfer.out(), 1u);
  EXPECT_NE(older, p);
}

TEST_F(LocalExchangeTest, TheNewestFreedTwiceChangesNothing) {
  f_.Open(v_, c_, 15, 4);
  const std::vector<void*> before = f_.Objects(v_, c_);
  EXPECT_FALSE(exchange_.Overflow(c_, before[3], 3));
  EXPECT_EQ(f_.Objects(v_, c_), before);
  EXPECT_EQ(f_.transfer.gives, 0u);
}

TEST_F(LocalExchangeTest, AThreadThatMovesBeforeItPutsBackLosesNothing) {
  f_.Open(v_, c_, 15, 4);
  f_.Open(f_.Use(1, 1 << 20), c_, 2, 0);
  f_.cpus.migrate_in = 2;  // between the pop and the push
  f_.cpus.migrate_to = 1;
  EXPECT_FALSE(exchange_.Overflow(c_, f_.Objects(v_, c_)[3], 3));
  EXPECT_EQ(Fill(0), 1u);
  EXPECT_EQ(Fill(1), 2u);
  EXPECT_EQ(f_.transfer.out(), 3u);
}

TEST_F(LocalExchangeTest, AThreadThatMovesDuringARefillFillsTheOtherVcpu) {
  Vcpu& other = f_.Use(1, 1 << 20);
  f_.Open(v_, c_, 15, 0);
  f_.Open(other, c_, 2, 0);
  f_.transfer.on_call = [this] { f_.cpus.current = 1; };
  ASSERT_NE(exchange_.Refill(c_, 8), nullptr);
  EXPECT_EQ(Fill(0), 0u);
  EXPECT_EQ(Fill(1), 2u);
  EXPECT_EQ(f_.transfer.out(), 3u);
}

TEST_F(LocalExchangeTest, GivingUpEmptiesTheClassPastTheTransferCache) {
  f_.Open(v_, c_, 15, 11);
  FakeSpans below{&f_.transfer};
  exchange_.GiveUp(c_, 3, below);
  EXPECT_EQ(Fill(), 8u);
  exchange_.GiveUp(c_, SIZE_MAX, below);
  EXPECT_EQ(Fill(), 0u);
  EXPECT_EQ(f_.transfer.out(), 0u);
  EXPECT_EQ(below.gives, 2u);
}

}  // namespace
}  // namespace strata::test
