// Objects between the calling thread's vCPU and the tier below: fetching some when a class is
// empty, sending some down when it is full. Sits in cache; the half of a miss that moves objects,
// where cache/room_policy.h is the one that decides for how many there is room.
//
// Takes no lock of the vCPU's: each step is one of Ops, on whatever vCPU the thread is by then.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "cache/rseq_ops.h"
#include "span/size_classes.h"

namespace strata {

// Ops and Transfer: see cache/cpu_cache.h.
template <class Ops, class Transfer>
class LocalExchange {
 public:
  void Init(const Ops& ops, Transfer* transfer) {
    ops_ = ops;
    transfer_ = transfer;
  }

  // Fetches `want` objects: one to return, the others for the slab. Null when memory is short.
  void* Refill(SizeClass c, size_t want) {
    return InfoOf(c).batch <= kFewOnStack ? RefillBy<kFewOnStack>(c, want)
                                          : RefillBy<kOnStack>(c, want);
  }

  // Sends the object and up to `wanted` others down. False, with nothing done, if the object is the
  // newest here: it was freed before.
  STRATA_NOINLINE bool Overflow(SizeClass c, void* object, size_t wanted) {
    void* batch[kOnStack];
    size_t popped = ops_.PopBatch(c, batch, wanted < kOnStack - 1 ? wanted : kOnStack - 1);
    if (popped != 0 && batch[popped - 1] == object) {
      const size_t kept = ops_.PushBatch(c, batch, popped);
      if (kept < popped) transfer_->Give(c, batch + kept, popped - kept);
      return false;
    }
    // With room for one only, the newer stays: else two frees in turn would always leave nothing.
    if (popped == 1 && ops_.Push(c, object) == PushResult::kPushed) {
      transfer_->Give(c, batch, 1);
      return true;
    }
    size_t given = popped;
    ops_.Mark(object);
    batch[popped++] = object;
    while (popped != 0) {
      transfer_->Give(c, batch, popped);
      const size_t left = given < wanted ? wanted - given : 0;
      popped = left == 0 ? 0 : ops_.PopBatch(c, batch, left < kOnStack ? left : kOnStack);
      given += popped;
    }
    return true;
  }

  // Sends up to n objects of the class down, past the transfer cache: `below` is the tier that
  // makes spans of them.
  template <class Below>
  void GiveUp(SizeClass c, size_t n, Below& below) {
    void* batch[kFewOnStack];
    while (n != 0) {
      const size_t popped = ops_.PopBatch(c, batch, n < kFewOnStack ? n : kFewOnStack);
      if (popped == 0) return;
      below.Give(c, batch, popped);
      n -= popped;
    }
  }

 private:
  template <size_t kAtOnce>
  STRATA_NOINLINE void* RefillBy(SizeClass c, size_t want) {
    void* batch[kAtOnce];
    void* object = nullptr;
    while (want != 0) {
      const size_t n = want < kAtOnce ? want : kAtOnce;
      const size_t got = transfer_->Take(c, batch, n);
      size_t first = 0;
      if (object == nullptr && got != 0) object = batch[first++];
      const size_t kept = first == got ? 0 : ops_.PushBatch(c, batch + first, got - first);
      if (first + kept < got) transfer_->Give(c, batch + first + kept, got - first - kept);
      want = got < n || first + kept < got ? 0 : want - n;
    }
    return object;
  }

  Ops ops_{};
  Transfer* transfer_ = nullptr;
};

}  // namespace strata
