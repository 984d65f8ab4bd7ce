// A superblock: an aligned run of kUnit bytes that holds objects of one size class. Its record has
// the free objects as a stack threaded through them (the newest first; objects that were never
// handed out are cut from the end), how many are in use, and who owns it. Everything is guarded by
// the owner's lock but the owner itself, which a thread that frees reads to find that lock.
//
// After Berger, McKinley, Blumofe, Wilson: Hoard (ASPLOS 2000), papers §6.1.
#pragma once

#include <atomic>

#include "strata/layers/aligned_run.h"
#include "strata/layers/classes.h"
#include "strata/layers/sync.h"

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

 public:
  // Emptiness is counted in parts of this many (emptiness_groups.h).
  static constexpr uint32_t kParts = 8;

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
    if (free_ == nullptr) return Cut();
    Link* first = free_;
    free_ = first->next;
    return first;
  }
  void Push(void* p) {
    free_ = ::new (p) Link{free_};
    --used_;
  }

  bool LastPushed(const void* p) const { return free_ == p; }

  // A block with a greater alignment may begin inside an object. Such a superblock finds the object
  // by a division; others are spared it.
  bool has_inside() const { return inside_.load(std::memory_order_relaxed); }
  void NoteInside() { inside_.store(true, std::memory_order_relaxed); }
  void* StartOf(void* p) const {
    if (!has_inside()) [[likely]]
      return p;
    const size_t offset = static_cast<size_t>(static_cast<char*>(p) - objects());
    return static_cast<char*>(p) - offset % object_size;
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
    for (Link* l = free_; l != nullptr; l = l->next) f(static_cast<void*>(l));
  }
  uint32_t cut() const { return cut_; }

 private:
  template <class S>
  friend class EmptinessGroups;
  struct Link {
    Link* next;
  };

  char* objects() const {
    return reinterpret_cast<char*>(const_cast<Superblock*>(this)) + Run::kRecord;
  }
  void* Cut() { return objects() + size_t{cut_++} * object_size; }

  uint32_t used_ = 0;
  uint32_t cut_ = 0;
  Link* free_ = nullptr;
  typename Sync::template Atomic<Owner*> owner_{nullptr};
  // Of EmptinessGroups: the list it is on, and the numbers in use with which it stays there.
  Superblock* prev_ = nullptr;
  Superblock* next_ = nullptr;
  uint32_t low_ = 0;
  uint32_t high_ = 0;
  uint32_t capacity_ = 0;
  uint16_t size_class_ = 0;
  uint8_t group_ = 0;
  std::atomic<bool> inside_{false};  // stays as it is once set; who has such a block has seen it
};

}  // namespace strata::layers
