// The records of vCPUs: made at the first use, found from then on, with room and limit.
#include "cache/vcpu.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "fake_vcpus.h"

namespace strata::test {
namespace {

TEST(VcpuTable, ARecordIsMadeOnceAndHasItsSlab) {
  FakeVcpus f(4);
  EXPECT_EQ(f.table.Find(2), nullptr);
  Vcpu& v = f.Use(2, 1000);
  EXPECT_EQ(f.table.Find(2), &v);
  EXPECT_EQ(&f.Use(2, 5), &v);
  EXPECT_EQ(v.limit(), 1000u);
  EXPECT_EQ(v.room(), 0u);
  EXPECT_EQ(v.resizes(), 0u);
  EXPECT_EQ(v.index(), 2u);
  EXPECT_EQ(&v.slab(), &f.cpus.slab(2));
  EXPECT_EQ(f.table.in_use(), 1u);
  EXPECT_EQ(f.table.Find(4), nullptr);
  EXPECT_EQ(f.table.Activate(4, [] { return size_t{1}; }), nullptr);
}

TEST(Slab, AClassIsMadeOnItsOwn) {
  FakeVcpus f(1);
  Slab& slab = f.Use(0, 1000).slab();
  const SizeClass c = ClassOfSize(48);
  EXPECT_FALSE(slab.IsMade(c));
  slab.Make(c);
  EXPECT_TRUE(slab.IsMade(c));
  EXPECT_FALSE(slab.IsMade(LastingClass(c)));
  EXPECT_EQ(slab.header(c).capacity, Slab::kFirstSlots);
  EXPECT_EQ(slab.header(c).start_factor.load(), StartFactor(c));
  EXPECT_EQ(slab.header(c).room(), 0u);
}

TEST(VcpuTable, WalksThoseInUse) {
  FakeVcpus f(5);
  for (const Vcpu& v : f.table) FAIL() << v.index();
  f.Use(4, 1);
  f.Use(1, 1);
  std::vector<size_t> seen;
  for (const Vcpu& v : f.table) seen.push_back(v.index());
  EXPECT_EQ(seen, (std::vector<size_t>{1, 4}));
}

TEST(VcpuTable, WithoutMemoryThereIsNoRecord) {
  FakeVcpus f(2);
  f.memory.fail = true;
  while (f.memory.arena().Allocate(1024) != nullptr) {
  }
  EXPECT_EQ(f.table.Activate(0, [] { return size_t{1}; }), nullptr);
  EXPECT_EQ(f.table.Find(0), nullptr);
  VcpuTable other;
  EXPECT_FALSE(other.Init(&f.memory.arena(), f.cpus.slabs(), 1000));
}

TEST(VcpuTable, ThreadsThatMeetGetTheSameRecord) {
  constexpr size_t kRounds = 64;
  FakeVcpus f(kRounds);
  std::vector<Vcpu*> seen[2] = {std::vector<Vcpu*>(kRounds), std::vector<Vcpu*>(kRounds)};
  const auto use_all = [&](size_t me) {
    for (size_t i = 0; i < kRounds; ++i) seen[me][i] = &f.Use(i, me);
  };
  std::thread other(use_all, 1);
  use_all(0);
  other.join();
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(f.table.in_use(), kRounds);
}

TEST(VcpuTable, WhileOneIsMadeNoOtherIs) {
  FakeVcpus f(1);
  bool met = false;
  f.table.Activate(0, [&] {
    std::thread([&] {
      if (!f.table.lock.TryAcquire()) return;
      met = true;
      f.table.lock.Release();
    }).join();
    return size_t{1};
  });
  EXPECT_FALSE(met);
}

TEST(Vcpu, CountsItsRoomAndTheChangesOfItsLimit) {
  FakeVcpus f(1);
  Vcpu& v = f.Use(0, 100);
  LockHolder hold(v.lock);
  v.AddRoom(60);
  EXPECT_EQ(v.left(), 40u);
  v.DropRoom(10);
  EXPECT_EQ(v.room(), 50u);
  v.SetLimit(100);
  EXPECT_EQ(v.resizes(), 0u);
  v.SetLimit(30);
  EXPECT_EQ(v.resizes(), 1u);
  EXPECT_EQ(v.left(), 0u);
}

}  // namespace
}  // namespace strata::test
