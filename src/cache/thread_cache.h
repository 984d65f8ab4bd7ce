// The front end where rseq cannot be used (a tunable, valgrind, qemu, gVisor, seccomp): one cache a
// thread, a stack of object pointers for each class, whose room grows with use (slow start) and
// shrinks when the thread's bytes pass its limit. It lies apart from the objects, so a free touches
// none, and a program that writes to what it freed does no harm here. Sits in cache.
//
// Used by one thread at a time; its owner flushes it when the thread ends, and may give it to
// another: what it has of memory for its stacks it keeps.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/metadata_arena.h"
#include "span/size_classes.h"

namespace strata {

struct ThreadCache {
  struct List {
    void** slots = nullptr;
    uint32_t length = 0;
    uint32_t room = 0;  // length at which it overflows; there are slots for so many
    uint32_t capacity = 0;
  };
  List lists[kMaxClasses];
  // Written by the owner, read by the statistics.
  std::atomic<size_t> bytes{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses_alloc{0};
  std::atomic<uint64_t> misses_free{0};
  std::atomic<bool> flush_wanted{false};  // set by others; the owner obeys at its next miss
  ThreadCache* next = nullptr;            // in the list of all caches; under its lock
  ThreadCache* previous = nullptr;        // the same

  // Before all else: where memory for the stacks comes from.
  void Bind(MetadataArena& arena) { arena_ = &arena; }

  // Of one that is empty and goes to another thread.
  void ForgetCounts() {
    hits.store(0, std::memory_order_relaxed);
    misses_alloc.store(0, std::memory_order_relaxed);
    misses_free.store(0, std::memory_order_relaxed);
    flush_wanted.store(false, std::memory_order_relaxed);
  }

  STRATA_ALWAYS_INLINE void* Pop(SizeClass c) {
    List& list = lists[Raw(c)];
    if (STRATA_UNLIKELY(list.length == 0)) return nullptr;
    void* object = list.slots[--list.length];
    Add(bytes, size_t{0} - InfoOf(c).size);
    Add(hits, uint64_t{1});
    return object;
  }

  // Of a class that has room. False, with nothing done, if the object is the newest: it was freed
  // before.
  STRATA_ALWAYS_INLINE bool Push(SizeClass c, void* object) {
    List& list = lists[Raw(c)];
    if (STRATA_UNLIKELY(list.length != 0 && list.slots[list.length - 1] == object)) return false;
    list.slots[list.length++] = object;
    Add(bytes, size_t{InfoOf(c).size});
    return true;
  }

  template <class Transfer>
  void* PopSlow(SizeClass c, Transfer& transfer) {
    Add(misses_alloc, uint64_t{1});
    if (STRATA_UNLIKELY(flush_wanted.load(std::memory_order_relaxed))) Flush(transfer);
    return InfoOf(c).batch <= kFewOnStack ? Refill<kFewOnStack>(c, transfer)
                                          : Refill<kOnStack>(c, transfer);
  }

  // As Push, for a class that has no room or a cache at its limit.
  template <class Transfer>
  bool PushSlow(SizeClass c, void* object, Transfer& transfer, size_t limit) {
    List& list = lists[Raw(c)];
    if (list.length != 0 && list.slots[list.length - 1] == object) return false;
    if (STRATA_UNLIKELY(flush_wanted.load(std::memory_order_relaxed))) {
      Flush(transfer);
      transfer.Give(c, &object, 1);
      return true;
    }
    if (list.length >= list.room) {
      Add(misses_free, uint64_t{1});
      const uint32_t batch = InfoOf(c).batch;
      if (list.room >= batch || !SetRoom(list, list.room == 0 ? 1 : list.room * 2))
        GiveSome(c, batch, transfer);
    }
    if (list.length < list.room) {
      Push(c, object);
    } else {
      transfer.Give(c, &object, 1);
    }
    if (bytes.load(std::memory_order_relaxed) > limit) Scavenge(transfer);
    return true;
  }

  bool HasRoom(SizeClass c, size_t limit) const {
    return lists[Raw(c)].length < lists[Raw(c)].room &&
           bytes.load(std::memory_order_relaxed) < limit;
  }

  // For any thread, while the owner may be at work: the length is read before what it covers, as in
  // CpuCache::Holds.
  bool Holds(SizeClass c, const void* object) const {
    const List& list = lists[Raw(c)];
    const uint32_t length = __atomic_load_n(&list.length, __ATOMIC_ACQUIRE);
    void* const* slots = __atomic_load_n(&list.slots, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < length; ++i) {
      if (__atomic_load_n(&slots[i], __ATOMIC_RELAXED) == object) return true;
    }
    return false;
  }

  // Sends down half of every list.
  template <class Transfer>
  void Scavenge(Transfer& transfer) {
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      GiveSome(c, (lists[i].length + 1) / 2, transfer);
      if (lists[i].room > InfoOf(c).batch) lists[i].room = InfoOf(c).batch;
    }
  }

  template <class Transfer>
  void Flush(Transfer& transfer) {
    flush_wanted.store(false, std::memory_order_relaxed);
    for (size_t i = 1; i < kNumClasses; ++i) {
      GiveSome(static_cast<SizeClass>(i), lists[i].length, transfer);
      lists[i].room = 0;
    }
  }

 private:
  // One to return, the others for the stack.
  template <size_t kAtOnce, class Transfer>
  STRATA_NOINLINE void* Refill(SizeClass c, Transfer& transfer) {
    List& list = lists[Raw(c)];
    const uint32_t batch = InfoOf(c).batch;
    void* objects[kAtOnce];
    void* object = nullptr;
    for (size_t want = list.room == 0 ? 1 : list.room < batch ? list.room : batch; want != 0;) {
      const size_t n = want < kAtOnce ? want : kAtOnce;
      const size_t got = transfer.Take(c, objects, n);
      for (size_t i = 0; i < got; ++i)
        object == nullptr ? void(object = objects[i]) : void(Push(c, objects[i]));
      want = got < n ? 0 : want - n;
    }
    // Half as long again as what is asked for at once, at first: a free has room, too.
    if (object != nullptr && list.room < batch * 8)
      SetRoom(list, list.room == 0 ? 2 : list.room + (list.room < batch ? list.room : batch));
    return object;
  }

  template <class T>
  STRATA_ALWAYS_INLINE static void Add(std::atomic<T>& n, T by) {
    // Only the owner writes, so no read-modify-write is needed.
    n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  // False, with the room as it was, when there is no memory for the slots.
  bool SetRoom(List& list, uint32_t room) {
    if (STRATA_UNLIKELY(room > list.capacity) && !MakeSlots(list, room)) return false;
    list.room = room;
    return true;
  }

  STRATA_NOINLINE bool MakeSlots(List& list, uint32_t least) {
    uint32_t capacity = list.capacity == 0 ? kFirstSlots : list.capacity * 4;
    if (capacity < least) capacity = least;
    auto* slots = static_cast<void**>(arena_->Allocate(capacity * sizeof(void*)));
    if (slots == nullptr) return false;
    if (list.length != 0) memcpy(slots, list.slots, list.length * sizeof(void*));
    list.slots = slots;
    list.capacity = capacity;
    return true;
  }

  // The oldest n go down, once the length covers them no more: from then on others take them, and
  // Holds must not find here what a program has.
  template <class Transfer>
  void GiveSome(SizeClass c, size_t n, Transfer& transfer) {
    List& list = lists[Raw(c)];
    if (n > list.length) n = list.length;
    if (n == 0) return;
    std::rotate(list.slots, list.slots + n, list.slots + list.length);
    list.length -= static_cast<uint32_t>(n);
    Add(bytes, size_t{0} - n * InfoOf(c).size);
    for (void* const* slots = list.slots + list.length; n != 0;) {
      const size_t k = n < kMaxBatch ? n : kMaxBatch;
      transfer.Give(c, slots, k);
      slots += k;
      n -= k;
    }
  }

  static constexpr uint32_t kFirstSlots = 8;

  MetadataArena* arena_ = nullptr;
};

}  // namespace strata
