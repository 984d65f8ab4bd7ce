// Call stacks of the recording, each kept once and written to the file once. Looking one up takes
// no lock; adding one, and writing out what is new, takes the table's. Sits in trace.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "profile/contexts.h"
#include "strata/trace/encode.h"
#include "trace/spin.h"

namespace strata::trace {

class StackTable {
 public:
  constexpr StackTable() = default;
  StackTable(const StackTable&) = delete;
  StackTable& operator=(const StackTable&) = delete;

  // The stack's number, from 1; 0: no room, or no frames.
  uint32_t Intern(const uintptr_t* frames, size_t depth) {
    if (depth == 0) return 0;
    const uint64_t hash = HashFrames(frames, depth);
    // acquire: pairs with the release in Add, after the stack was written.
    std::atomic<uint32_t>& bucket = buckets_[hash % kBuckets];
    const uint32_t head = bucket.load(std::memory_order_acquire);
    if (const uint32_t known = Find(head, 0, hash, frames, depth)) return known;
    lock_.Acquire();
    const uint32_t now = bucket.load(std::memory_order_relaxed);
    uint32_t number = Find(now, head, hash, frames, depth);
    if (number == 0) number = Add(bucket, now, hash, frames, depth);
    lock_.Release();
    return number;
  }

  // Encodes stacks that were not written yet, as many as fit; 0: there are none. `write` gets the
  // block while the lock is held, so that each is written once.
  template <class Write>
  void WriteNew(uint8_t* buffer, size_t capacity, Write&& write) {
    lock_.Acquire();
    while (written_ != used_) {
      const size_t size = EncodeNew(buffer, capacity);
      if (size == 0 || !write(size)) break;
    }
    lock_.Release();
  }

  bool HeldByThisThread() const { return lock_.HeldByThisThread(); }

  // In a forked child, which writes a file of its own.
  void Clear() {
    lock_.Reset();
    for (auto& bucket : buckets_) bucket.store(0, std::memory_order_relaxed);
    used_ = written_ = 0;
    count_ = written_count_ = 0;
  }

 private:
  struct Stack {
    uint64_t hash;
    uint32_t next;  // in its bucket, as `where`; 0: none
    uint32_t number;
    uint64_t depth;
    uintptr_t* frames() { return reinterpret_cast<uintptr_t*>(this + 1); }
    const uintptr_t* frames() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
  };
  static constexpr size_t kBuckets = 1 << 16;
  static constexpr size_t kBytes = size_t{512} << 20;  // of address space
  static constexpr size_t kGrain = 8;

  // `where` is the place in the memory in grains plus one, so that 0 is none.
  Stack* At(uint32_t where) const {
    return reinterpret_cast<Stack*>(memory_ + (size_t{where} - 1) * kGrain);
  }
  uint32_t Find(uint32_t from, uint32_t end, uint64_t hash, const uintptr_t* frames,
                size_t depth) const {
    for (uint32_t where = from; where != end; where = At(where)->next) {
      Stack* stack = At(where);
      if (stack->hash == hash && stack->depth == depth &&
          memcmp(stack->frames(), frames, depth * sizeof(*frames)) == 0)
        return stack->number;
    }
    return 0;
  }
  uint32_t Add(std::atomic<uint32_t>& bucket, uint32_t head, uint64_t hash, const uintptr_t* frames,
               size_t depth) {
    if (memory_ == nullptr) {
      void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) return 0;
      memory_ = static_cast<uint8_t*>(p);
    }
    const size_t bytes = sizeof(Stack) + depth * sizeof(*frames);
    if (bytes > kBytes - used_) return 0;
    const auto where = static_cast<uint32_t>(used_ / kGrain + 1);
    Stack* stack = At(where);
    *stack = {hash, head, ++count_, depth};
    memcpy(stack->frames(), frames, depth * sizeof(*frames));
    used_ += bytes;
    bucket.store(where, std::memory_order_release);
    return stack->number;
  }

  static size_t SharedFrames(const Stack& a, const Stack& b) {
    const size_t most = a.depth < b.depth ? a.depth : b.depth;
    size_t n = 0;
    while (n < most && a.frames()[a.depth - 1 - n] == b.frames()[b.depth - 1 - n]) ++n;
    return n;
  }

  // Under the lock.
  size_t EncodeNew(uint8_t* buffer, size_t capacity) {
    constexpr size_t kMostVarint = 10;
    size_t end = written_, count = 0;
    for (size_t need = kBlockOverhead; end != used_; ++count) {
      const Stack* stack = At(static_cast<uint32_t>(end / kGrain + 1));
      need += (stack->depth + 2) * kMostVarint;
      if (need > capacity) break;
      end += sizeof(Stack) + stack->depth * sizeof(uintptr_t);
    }
    if (count == 0) return 0;
    BlockBuilder block(buffer, capacity, BlockKind::kStacks);
    block.Column(column::kScalars);
    block.Varint(count);
    block.Varint(written_count_ + 1);
    // Programs allocate again and again from below the same callers: what a stack shares with the
    // one before it is not repeated.
    const auto each = [&](auto&& put) {
      const Stack* before = nullptr;
      for (size_t at = written_; at != end;) {
        const Stack* stack = At(static_cast<uint32_t>(at / kGrain + 1));
        put(*stack, before == nullptr ? 0 : SharedFrames(*stack, *before));
        at += sizeof(Stack) + stack->depth * sizeof(uintptr_t);
        before = stack;
      }
    };
    block.Column(column::kDepths);
    each([&](const Stack& stack, size_t) { block.Varint(stack.depth); });
    block.Column(column::kShared);
    each([&](const Stack&, size_t shared) { block.Varint(shared); });
    block.Column(column::kFrames);
    each([&, last = uintptr_t{0}](const Stack& stack, size_t shared) mutable {
      for (size_t i = stack.depth - shared; i-- != 0;) {  // they lie innermost first
        block.Varint(ZigZag(static_cast<int64_t>(stack.frames()[i] - last)));
        last = stack.frames()[i];
      }
    });
    written_ = end;
    written_count_ += static_cast<uint32_t>(count);
    return block.Finish();
  }

  Spin lock_;
  uint8_t* memory_ = nullptr;
  size_t used_ = 0;     // bytes
  size_t written_ = 0;  // bytes of which the file has the stacks
  uint32_t count_ = 0;
  uint32_t written_count_ = 0;
  std::atomic<uint32_t> buckets_[kBuckets] = {};
};

}  // namespace strata::trace
