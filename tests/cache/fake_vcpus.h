// A table of vCPUs over fake slabs, for tests of what works on one: opens classes with objects in
// them, and reads rooms back from the slab.
#pragma once

#include <vector>

#include "../hugepage/test_arena.h"
#include "base/check.h"
#include "cache/limit_pool.h"
#include "cache/vcpu.h"
#include "cache/vcpu_table.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {

struct FakeVcpus {
  explicit FakeVcpus(size_t n) : cpus(n) {
    STRATA_CHECK(table.Init(&memory.arena(), cpus.slabs(), n));
  }

  Vcpu& Use(size_t i, size_t limit) {
    Vcpu* v = table.Activate(i, [=] { return limit; });
    STRATA_CHECK(v != nullptr);
    return *v;
  }
  // Room for so many of the class, with so many objects there. Within the slab's own slots.
  void Open(Vcpu& v, SizeClass c, size_t room, size_t objects) {
    STRATA_CHECK(objects <= room && room <= Slab::kFirstSlots);
    LockHolder hold(v.lock);
    if (!v.slab().IsMade(c)) v.slab().Make(c);
    v.slab().Open(c, room);
    v.AddRoom(room * InfoOf(c).size);
    if (objects != 0)
      STRATA_CHECK(transfer.Take(c, v.slab().header(c).slots(), objects) == objects);
    SetFill(v.slab().header(c), objects);
  }
  static size_t RoomInSlab(const Vcpu& v) {
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      bytes += v.slab().header(c).room() * InfoOf(c).size;
    }
    return bytes;
  }
  static std::vector<void*> Objects(const Vcpu& v, SizeClass c) {
    const SlabHeader& h = v.slab().header(c);
    return std::vector<void*>(h.slots(), h.slots() + h.fill());
  }

  TestArena memory;
  FakeTransfer transfer;
  FakeCpus cpus;
  FakeOps ops{&cpus};
  LimitPool pool;
  VcpuTable table;
};

}  // namespace strata::test
