// The front end where rseq is not to be had (tunable off, valgrind, qemu, gVisor, seccomp): one
// cache a thread, a linked list through the free objects of each class, whose length grows with use
// (slow start) and shrinks when the thread's bytes pass its limit. Sits in cache; design §3.
//
// Used by one thread at a time; its owner binds it to a thread and flushes it when the thread ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "span/size_classes.h"

namespace strata {

struct ThreadCache {
  struct List {
    void* head = nullptr;
    uint32_t length = 0;
    uint32_t room = 1;  // length at which it overflows
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

  void* Pop(SizeClass c) {
    List& list = lists[Raw(c)];
    void* object = list.head;
    if (object == nullptr) return nullptr;
    list.head = *static_cast<void**>(object);
    --list.length;
    Add(bytes, size_t{0} - InfoOf(c).size);
    Add(hits, uint64_t{1});
    return object;
  }

  bool IsNewest(SizeClass c, const void* object) const { return lists[Raw(c)].head == object; }

  void Push(SizeClass c, void* object) {
    List& list = lists[Raw(c)];
    *static_cast<void**>(object) = list.head;
    list.head = object;
    ++list.length;
    Add(bytes, size_t{InfoOf(c).size});
  }

  template <class Transfer>
  void* PopSlow(SizeClass c, Transfer& transfer) {
    Add(misses_alloc, uint64_t{1});
    if (STRATA_UNLIKELY(flush_wanted.load(std::memory_order_relaxed))) Flush(transfer);
    return InfoOf(c).batch <= kFewOnStack ? Refill<kFewOnStack>(c, transfer)
                                          : Refill<kOnStack>(c, transfer);
  }

  template <class Transfer>
  void PushSlow(SizeClass c, void* object, Transfer& transfer, size_t limit) {
    Push(c, object);
    if (STRATA_UNLIKELY(flush_wanted.load(std::memory_order_relaxed))) return Flush(transfer);
    List& list = lists[Raw(c)];
    if (list.length > list.room) {
      Add(misses_free, uint64_t{1});
      const ClassInfo& info = InfoOf(c);
      if (list.room < info.batch) {
        list.room *= 2;
      } else {
        GiveSome(c, info.batch, transfer);
      }
    }
    if (bytes.load(std::memory_order_relaxed) > limit) Scavenge(transfer);
  }

  bool HasRoom(SizeClass c, size_t limit) const {
    return lists[Raw(c)].length < lists[Raw(c)].room &&
           bytes.load(std::memory_order_relaxed) < limit;
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
      lists[i].room = 1;
    }
  }

 private:
  template <size_t kAtOnce, class Transfer>
  STRATA_NOINLINE void* Refill(SizeClass c, Transfer& transfer) {
    List& list = lists[Raw(c)];
    const ClassInfo& info = InfoOf(c);
    void* batch[kAtOnce];
    void* object = nullptr;
    for (size_t want = list.room < info.batch ? list.room : info.batch; want != 0;) {
      const size_t n = want < kAtOnce ? want : kAtOnce;
      const size_t got = transfer.Take(c, batch, n);
      for (size_t i = 0; i < got; ++i) {
        if (object == nullptr) {
          object = batch[i];
        } else {
          Push(c, batch[i]);
        }
      }
      want = got < n ? 0 : want - n;
    }
    if (object != nullptr && list.room < size_t{info.batch} * 8)
      list.room += list.room < info.batch ? list.room : info.batch;
    return object;
  }

  template <class T>
  static void Add(std::atomic<T>& n,
                  T by) {  // only the owner writes, so no read-modify-write is needed
    n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  template <class Transfer>
  void GiveSome(SizeClass c, size_t n, Transfer& transfer) {
    List& list = lists[Raw(c)];
    while (n != 0 && list.head != nullptr) {
      void* batch[kOnStack];
      size_t k = 0;
      while (k < kOnStack && k < n && list.head != nullptr) {
        batch[k++] = list.head;
        list.head = *static_cast<void**>(list.head);
      }
      list.length -= static_cast<uint32_t>(k);
      n -= k;
      Add(bytes, size_t{0} - k * InfoOf(c).size);
      transfer.Give(c, batch, k);
    }
  }
};

}  // namespace strata
