// The four slab operations of cache/rseq_ops.h without rseq: on the same layout, for whatever
// virtual CPU the test says, one thread at a time. They are also the readable statement of what
// the assembly does.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "base/check.h"
#include "cache/rseq_ops.h"
#include "cache/slab.h"

namespace strata::test {

// What the test changes while a CpuCache holds a copy of its FakeOps.
struct FakeCpus {
  explicit FakeCpus(size_t n)
      : count(n), memory(static_cast<char*>(aligned_alloc(4096, n << kSlabShift))) {
    STRATA_CHECK(memory != nullptr);
    memset(memory, 0, n << kSlabShift);
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
  size_t refuse_fence = 0;  // only this one, counted from 1; 0: none
  size_t fences = 0;
  std::function<void()> on_fence;  // what sequences in flight still do before it
  bool elsewhere = false;          // whoever asks has moved to another CPU
  std::function<void()> on_is_on;
  bool fence_forbidden = false;  // known to be refused: not asked
  std::vector<void*> marked;     // as free, by other calls than those of the slab
};

struct FakeOps {
  FakeCpus* cpus = nullptr;

  void* Pop(SizeClass c) const {
    SlabHeader& h = Here().header(c);
    const uint64_t word = h.word.load(std::memory_order_relaxed);
    const size_t fill = word & 0xffff;
    if (fill <= h.begin.load(std::memory_order_relaxed)) return nullptr;
    void* object = h.slots()[fill - 1];
    h.word.store(((word >> 16) + 1) << 16 | (fill - 1), std::memory_order_relaxed);
    return object;
  }

  PushResult Push(SizeClass c, void* object) const {
    SlabHeader& h = Here().header(c);
    const size_t fill = h.fill();
    if (fill >= h.end.load(std::memory_order_relaxed)) return PushResult::kNoRoom;
    if (h.slots()[static_cast<ptrdiff_t>(fill) - 1] == object) return PushResult::kSuspect;
    h.slots()[fill] = object;
    SetFill(h, fill + 1);
    return PushResult::kPushed;
  }

  void Mark(void* object) const { cpus->marked.push_back(object); }

  size_t PopBatch(SizeClass c, void** out, size_t n) const {
    SlabHeader& h = Here().header(c);
    const size_t fill = h.fill();
    const size_t begin = h.begin.load(std::memory_order_relaxed);
    if (fill <= begin) return 0;
    const size_t count = fill - begin < n ? fill - begin : n;
    for (size_t i = 0; i < count; ++i) out[i] = h.slots()[fill - count + i];  // the newest last
    SetFill(h, fill - count);
    return count;
  }

  size_t PushBatch(SizeClass c, void* const* objects, size_t n) const {
    SlabHeader& h = Here().header(c);
    const size_t fill = h.fill();
    const size_t end = h.end.load(std::memory_order_relaxed);
    if (fill >= end) return 0;
    const size_t count = end - fill < n ? end - fill : n;
    for (size_t i = 0; i < count; ++i) h.slots()[fill + i] = objects[i];
    SetFill(h, fill + count);
    return count;
  }

  size_t vcpu() const {
    if (cpus->migrate_in != 0 && --cpus->migrate_in == 0) cpus->current = cpus->migrate_to;
    return cpus->current;
  }
  bool IsOn(size_t vcpu) const {
    if (cpus->on_is_on) cpus->on_is_on();
    return !cpus->elsewhere && cpus->current == vcpu;
  }
  bool MayFence() const { return !cpus->fence_forbidden; }
  bool Fence() const {
    ++cpus->fences;
    if (cpus->on_fence) cpus->on_fence();
    return !cpus->fence_fails && cpus->fences != cpus->refuse_fence;
  }

 private:
  Slab& Here() const { return cpus->slab(vcpu()); }
};

}  // namespace strata::test
