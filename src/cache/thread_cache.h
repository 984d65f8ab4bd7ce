// The front end where rseq is not to be had (tunable off, valgrind, qemu, gVisor, seccomp): one
// cache a thread, a linked list through the free objects of each class, whose length grows with use
// (slow start) and shrinks when the thread's bytes pass its limit. Sits in cache; design §3.
//
// Used by one thread at a time; its owner binds it to a thread and flushes it when the thread ends.
//
// A program that writes to what it freed writes over links. So each is stored with its place mixed
// in and multiplied by a secret odd number: whatever bytes of it change, what is read back lies
// outside of the heap, but for chances of heap bytes in 2^64. A word that reads back as a link
// before the free, on the other hand, shows an object that is in the list already.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "span/size_classes.h"

namespace strata {

// How one cache stores its links.
class LinkCode {
 public:
  void Seed(uint64_t seed) {
    key_ = Mix(seed);
    factor_ = Mix(key_ ^ seed) | 1;
    inverse_ = factor_;  // Newton's iteration: each round doubles the low bits that are right
    for (int round = 0; round < 5; ++round) inverse_ *= 2 - factor_ * inverse_;
  }
  uint64_t Encode(const void* place, const void* next) const {
    return (reinterpret_cast<uintptr_t>(next) ^ MaskOf(place)) * factor_;
  }
  void* Decode(const void* place, uint64_t word) const {
    return reinterpret_cast<void*>((word * inverse_) ^ MaskOf(place));
  }

 private:
  // The place's low bits come to the top, so that a link copied to another object is no address.
  uint64_t MaskOf(const void* place) const {
    return key_ ^ std::rotl(uint64_t{reinterpret_cast<uintptr_t>(place)}, 44);
  }
  static uint64_t Mix(uint64_t x) {  // splitmix64's last step
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  uint64_t key_ = 0;
  uint64_t factor_ = 1;
  uint64_t inverse_ = 1;
};

// Heap knows what an object's address looks like: bool MayBeObject(SizeClass, const void*), false
// for null; and takes reports: void ReportOverwritten(void*).
template <class Heap>
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

  // Before all else.
  void Bind(Heap* heap, uint64_t seed) {
    heap_ = heap;
    code_.Seed(seed);
  }

  void* Pop(SizeClass c) {
    List& list = lists[Raw(c)];
    if (list.head == nullptr) return nullptr;
    void* object = Unlink(c, list);
    Add(bytes, size_t{0} - InfoOf(c).size);
    Add(hits, uint64_t{1});
    return object;
  }

  // False, with nothing done, if the object is in the list already.
  bool Push(SizeClass c, void* object) {
    List& list = lists[Raw(c)];
    void* read = code_.Decode(object, *static_cast<uint64_t*>(object));
    if (STRATA_UNLIKELY(read == nullptr || heap_->MayBeObject(c, read)) && Holds(c, list, object))
      return false;
    *static_cast<uint64_t*>(object) = code_.Encode(object, list.head);
    list.head = object;
    ++list.length;
    Add(bytes, size_t{InfoOf(c).size});
    return true;
  }

  // For an object that has been written to since it was freed, which hides it from Push.
  bool IsNewest(SizeClass c, const void* object) const { return lists[Raw(c)].head == object; }

  template <class Transfer>
  void* PopSlow(SizeClass c, Transfer& transfer) {
    Add(misses_alloc, uint64_t{1});
    if (STRATA_UNLIKELY(flush_wanted.load(std::memory_order_relaxed))) Flush(transfer);
    return InfoOf(c).batch <= kFewOnStack ? Refill<kFewOnStack>(c, transfer)
                                          : Refill<kOnStack>(c, transfer);
  }

  // As Push.
  template <class Transfer>
  bool PushSlow(SizeClass c, void* object, Transfer& transfer, size_t limit) {
    if (!Push(c, object)) return false;
    if (STRATA_UNLIKELY(flush_wanted.load(std::memory_order_relaxed))) {
      Flush(transfer);
      return true;
    }
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
    return true;
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

  // Takes the newest off a list that has one. The object's link is cleared: the program must not
  // learn it, nor may Push take it for one when the object comes back.
  void* Unlink(SizeClass c, List& list) {
    void* object = list.head;
    auto* word = static_cast<uint64_t*>(object);
    void* after = code_.Decode(object, *word);
    *word = 0;
    --list.length;
    if (STRATA_LIKELY(heap_->MayBeObject(c, after)) || (after == nullptr && list.length == 0)) {
      list.head = after;
    } else {
      DropRest(c, list, object);
    }
    return object;
  }

  // What lies behind an object that was overwritten is out of reach, and lost.
  STRATA_NOINLINE void DropRest(SizeClass c, List& list, void* object) {
    Add(bytes, size_t{0} - list.length * size_t{InfoOf(c).size});
    list.head = nullptr;
    list.length = 0;
    heap_->ReportOverwritten(object);
  }

  STRATA_NOINLINE bool Holds(SizeClass c, const List& list, const void* object) const {
    const void* at = list.head;
    for (uint32_t left = list.length; left != 0 && at != object; --left) {
      at = code_.Decode(at, *static_cast<const uint64_t*>(at));
      if (!heap_->MayBeObject(c, at)) return false;
    }
    return at == object;
  }

  template <class Transfer>
  void GiveSome(SizeClass c, size_t n, Transfer& transfer) {
    List& list = lists[Raw(c)];
    while (n != 0 && list.head != nullptr) {
      void* batch[kOnStack];
      size_t k = 0;
      while (k < kOnStack && k < n && list.head != nullptr) batch[k++] = Unlink(c, list);
      n -= k;
      Add(bytes, size_t{0} - k * InfoOf(c).size);
      transfer.Give(c, batch, k);
    }
  }

  Heap* heap_ = nullptr;
  LinkCode code_;
};

}  // namespace strata
