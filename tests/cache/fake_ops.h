// The four slab operations of cache/rseq_ops.h without rseq: on the same layout, for whatever
// virtual CPU the test says, one thread at a time. They are also the readable statement of what
// the assembly does.
#pragma once

#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "cache/rseq_ops.h"
#include "cache/slab.h"

namespace strata::test {

// What the test changes while a CpuCache holds a copy of its FakeOps.
struct FakeCpus {
  explicit FakeCpus(size_t n)
      : count(n), memory(static_cast<char*>(aligned_alloc(4096, (n << kSlabShift) + 4096))) {
    STRATA_CHECK(memory != nullptr);
    memset(memory, 0, (n << kSlabShift) + 4096);
  }
  ~FakeCpus() { free(memory); }
  FakeCpus(const FakeCpus&) = delete;
  FakeCpus& operator=(const FakeCpus&) = delete;

  void* slabs() const { return memory; }
  Slab& slab(size_t i) const { return *reinterpret_cast<Slab*>(memory + (i << kSlabShift)); }

  size_t count;
  char* memory;
  size_t current = 0;
  // After so many more operations the thread finds itself on another CPU; 0: never.
  size_t migrate_in = 0;
  size_t migrate_to = 0;
  bool fence_fails = false;
  size_t fences = 0;
  bool elsewhere = false;        // whoever asks has moved to another CPU
  bool fence_forbidden = false;  // known to be refused: not asked
};

struct FakeOps {
  FakeCpus* cpus = nullptr;

  void* Pop(SizeClass c) const {
    Slab& slab = Here();
    SlabHeader& h = slab.header(c);
    const uint64_t word = h.word.load(std::memory_order_relaxed);
    const size_t fill = word & 0xffff;
    if (fill <= h.begin.load(std::memory_order_relaxed)) return nullptr;
    void* object = *slab.slot(fill - 1);
    h.word.store(((word >> 16) + 1) << 16 | (fill - 1), std::memory_order_relaxed);
    return object;
  }

  PushResult Push(SizeClass c, void* object) const {
    Slab& slab = Here();
    SlabHeader& h = slab.header(c);
    const size_t fill = h.fill();
    if (fill >= h.end.load(std::memory_order_relaxed)) return PushResult::kNoRoom;
    if (*slab.slot(fill - 1) == object) return PushResult::kSuspect;
    *slab.slot(fill) = object;
    SetFill(h, fill + 1);
    return PushResult::kPushed;
  }

  size_t PopBatch(SizeClass c, void** out, size_t n) const {
    Slab& slab = Here();
    SlabHeader& h = slab.header(c);
    const size_t fill = h.fill();
    const size_t begin = h.begin.load(std::memory_order_relaxed);
    if (fill <= begin) return 0;
    const size_t count = fill - begin < n ? fill - begin : n;
    for (size_t i = 0; i < count; ++i) out[i] = *slab.slot(fill - count + i);  // the newest last
    SetFill(h, fill - count);
    return count;
  }

  size_t PushBatch(SizeClass c, void* const* objects, size_t n) const {
    Slab& slab = Here();
    SlabHeader& h = slab.header(c);
    const size_t fill = h.fill();
    const size_t end = h.end.load(std::memory_order_relaxed);
    if (fill >= end) return 0;
    const size_t count = end - fill < n ? end - fill : n;
    for (size_t i = 0; i < count; ++i) *slab.slot(fill + i) = objects[i];
    SetFill(h, fill + count);
    return count;
  }

  size_t vcpu() const {
    if (cpus->migrate_in != 0 && --cpus->migrate_in == 0) cpus->current = cpus->migrate_to;
    return cpus->current;
  }
  bool IsOn(size_t vcpu) const { return !cpus->elsewhere && cpus->current == vcpu; }
  bool MayFence() const { return !cpus->fence_forbidden; }
  bool Fence() const {
    ++cpus->fences;
    return !cpus->fence_fails;
  }

 private:
  Slab& Here() const { return cpus->slab(vcpu()); }
  static void SetFill(SlabHeader& h, size_t fill) {
    h.word.store(h.pops() << 16 | fill, std::memory_order_relaxed);
  }
};

}  // namespace strata::test
