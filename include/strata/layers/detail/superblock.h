// A superblock: an aligned run of kUnit bytes that holds objects of one size class. Its record has
// the free objects as a stack threaded through them (the newest first; objects that were never
// handed out are cut from the end), how many are in use, and who owns it. Everything is guarded by
// the owner's lock but the owner itself, which a thread that frees reads to find that lock.
//
// After Berger, McKinley, Blumofe, Wilson: Hoard (ASPLOS 2000, section 3).
#pragma once

#include <algorithm>
#include <atomic>

#include "strata/layers/combine/classes.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/detail/aligned_run.h"
#include "strata/layers/detail/freed_mark.h"
#include "strata/layers/detail/sync.h"

namespace strata::layers {

// The classes of objects that superblocks of kUnit bytes hold: up to a quarter of a superblock the
// geometric ones, then those of which exactly three and two fit. What is larger than half of a
// superblock can hold is not worth one.
template <size_t kUnit>
struct SuperblockClasses {
  static constexpr size_t kRoom = AlignedRun<kUnit>::kRoom;
  using Small = Geometric<kUnit / 4>;
  static_assert(Small::largest < kRoom / 3, "three objects must be larger than a quarter");
  static constexpr size_t kThird = kRoom / 3 & ~(kDefaultAlignment - 1);
  static constexpr size_t largest = kRoom / 2 & ~(kDefaultAlignment - 1);
  static constexpr size_t count = Small::count + 2;
  static constexpr size_t of(size_t size) {
    return size <= Small::largest ? Small::of(size) : Small::count + (size > kThird);
  }
  static constexpr size_t size(size_t c) {
    return c < Small::count ? Small::size(c) : c == Small::count ? kThird : largest;
  }
};

template <size_t kUnit, class Owner, class Sync = SystemSync>
class Superblock : public RunHeader {
  using Run = AlignedRun<kUnit>;
  static_assert(kUnit <= size_t{1} << 19, "IndexOf, and the 16 bits of low_ and high_");

 public:
  // Emptiness is counted in parts of this many (emptiness_groups.h).
  static constexpr uint32_t kParts = 16;

  static constexpr uint32_t CapacityFor(size_t object_size) {
    return static_cast<uint32_t>(Run::kRoom / object_size);
  }

  // Makes one of a run that holds nothing.
  static Superblock* Begin(void* base, size_t size_class, size_t object_size, Owner* owner) {
    static_assert(sizeof(Superblock) <= Run::kRecord);
    auto* s = ::new (Run::RecordAt(Run::BaseOf(base))) Superblock;
    s->object_size = static_cast<uint32_t>(object_size);
    s->size_class_ = static_cast<uint16_t>(size_class);
    s->capacity_ = CapacityFor(object_size);
    s->reciprocal_ = static_cast<uint32_t>(kOne / (object_size / kGrain) + 1);
    s->set_owner(owner);
    return s;
  }

  Owner* owner() const { return owner_.load(std::memory_order_acquire); }
  // release: who reads the new owner sees what was done to the superblock under the old one.
  void set_owner(Owner* owner) { owner_.store(owner, std::memory_order_release); }

  void* base() { return reinterpret_cast<void*>(Run::BaseOf(this)); }
  size_t size_class() const { return size_class_; }
  uint32_t used() const { return used_; }
  uint32_t capacity() const { return capacity_; }

  // To tell a free of a block that came back already, or never was one: after this nothing in the
  // run is.
  void End() { mark = 0; }

  // There must be one.
  void* Pop() {
    ++used_;
    void* p = free_.empty() ? Cut() : free_.Pop();
    FreedMark::Clear(p);  // also of one that is cut: the run may have held others before
    return p;
  }
  void Push(void* p) {
    free_.Push(p);
    FreedMark::Set(p);
    --used_;
  }

  // Many at once: up to n onto another stack, where they stay marked as free; how many it were.
  size_t PopTo(internal::BlockStack& to, size_t n) {
    const size_t freed = std::min<size_t>(n, cut() - used_);
    if (freed > 0) to.Push(free_.PopChain(freed, [](void*) { return true; }));
    const size_t fresh = std::min<size_t>(n - freed, capacity_ - cut());
    for (size_t i = fresh; i-- > 0;) {  // so that the lowest comes to be the newest
      void* p = objects() + (cut() + i) * object_size;
      to.Push(p);
      FreedMark::Set(p);
    }
    cut_.store(cut() + static_cast<uint32_t>(fresh), std::memory_order_relaxed);
    used_ += static_cast<uint32_t>(freed + fresh);
    return freed + fresh;
  }
  // Objects of this superblock that are marked as free.
  void Push(const internal::BlockChain& chain) {
    free_.Push(chain);
    used_ -= static_cast<uint32_t>(chain.count);
  }

  // Whether an object that was ever handed out begins at p. For any thread: whoever has one sees
  // that it was.
  bool IsObject(const void* p) const {
    const auto offset = static_cast<size_t>(static_cast<const char*>(p) - objects());
    const size_t index = IndexOf(offset);
    return index * object_size == offset && index < cut_.load(std::memory_order_relaxed);
  }

  // A block with a greater alignment may begin inside an object. Such a superblock takes a pointer
  // into an object for one to it.
  bool has_inside() const { return inside_.load(std::memory_order_relaxed); }
  void NoteInside() { inside_.store(true, std::memory_order_relaxed); }
  void* StartOf(void* p) const {
    if (!has_inside()) [[likely]]
      return p;
    const auto offset = static_cast<size_t>(static_cast<char*>(p) - objects());
    return objects() + IndexOf(offset) * object_size;
  }
  size_t RoomFrom(void* p) const {
    return object_size -
           static_cast<size_t>(static_cast<char*>(p) - static_cast<char*>(StartOf(p)));
  }

  // How full, in whole parts: 0 to kParts, where kParts means that nothing is free.
  uint32_t part() const { return used_ * kParts / capacity_; }

  // Calls f(void*) for each object that was freed and not handed out again: for tests.
  template <class F>
  void VisitFree(F f) const {
    free_.Visit(f);
  }
  uint32_t cut() const { return cut_.load(std::memory_order_relaxed); }

 private:
  template <class S>
  friend class EmptinessGroups;

  char* objects() const {
    return reinterpret_cast<char*>(const_cast<Superblock*>(this)) + Run::kRecord;
  }
  void* Cut() {
    const uint32_t at = cut();
    cut_.store(at + 1, std::memory_order_relaxed);
    return objects() + size_t{at} * object_size;
  }
  // offset / object_size, without a division, for an offset within the run; some number for others.
  // In grains both are below 2^16, and their product is below kOne, so the error of the reciprocal,
  // at most one, does not reach the quotient.
  size_t IndexOf(size_t offset) const {
    return static_cast<uint32_t>(offset) / kGrain * uint64_t{reciprocal_} / kOne;
  }
  static constexpr uint32_t kGrain = kDefaultAlignment;  // objects are multiples of it
  static constexpr uint64_t kOne = uint64_t{1} << 31;

  uint32_t used_ = 0;
  std::atomic<uint32_t> cut_{0};  // written under the lock
  internal::BlockStack free_;
  typename Sync::template Atomic<Owner*> owner_{nullptr};
  // Of EmptinessGroups: the list it is on, and the numbers in use with which it stays there.
  Superblock* prev_ = nullptr;
  Superblock* next_ = nullptr;
  uint16_t low_ = 0;
  uint16_t high_ = 0;
  uint32_t reciprocal_ = 0;
  uint32_t capacity_ = 0;
  uint16_t size_class_ = 0;
  uint8_t group_ = 0;
  std::atomic<bool> inside_{false};  // stays as it is once set; who has such a block has seen it
};

}  // namespace strata::layers
