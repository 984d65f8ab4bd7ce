// The central free lists of all classes, as the one tier below the transfer cache, and those of
// objects in groups, which the slow path asks. A class's list is made when the program first wants
// an object of it: a small program uses a few dozen of two hundred, and the others take no memory.
// Sits in heaps.
// Thread-safe: one lock a class, and one to make a list, which forks take before those.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "heaps/grouped_lists.h"
#include "span/central_free_list.h"
#include "span/size_classes.h"

namespace strata {

template <class Source>
class CentralLists {
 public:
  using List = CentralFreeList<Source>;

  CentralLists(Source& source, MetadataArena& arena, SpanOrder order)
      : source_(source), arena_(arena), order_(order), groups_(source, arena, order) {}
  CentralLists(const CentralLists&) = delete;
  CentralLists& operator=(const CentralLists&) = delete;

  size_t Take(SizeClass c, void** out, size_t n) STRATA_EXCLUDES(making_) {
    List* list = Made(c);
    return list == nullptr ? 0 : list->Take(out, n);
  }
  void* TakeIn(SizeClass c, Placement placement) STRATA_EXCLUDES(making_) {
    List* list = Made(c);
    return list == nullptr ? nullptr : list->TakeIn(placement);
  }
  // Objects of a list, which is therefore made.
  void Give(SizeClass c, void* const* objects, size_t n) { Find(c)->Give(objects, n); }

  // Null where the class was never used.
  List* Find(SizeClass c) const {
    // acquire: pairs with the release in Make, so that the list is seen whole.
    return lists_[Raw(c)].load(std::memory_order_acquire);
  }
  GroupedLists<Source>& groups() { return groups_; }
  // The list that a span of objects is on.
  List& ListOf(const Span& span) {
    return span.is_grouped() ? groups_.Of(span.size_class, span.group) : *Find(span.size_class);
  }

  template <class F>
  void ForEach(F f) {
    for (size_t c = 1; c < kNumClasses; ++c)
      if (List* list = Find(static_cast<SizeClass>(c))) f(*list);
    groups_.ForEach(f);
  }

  // Background thread.
  void SetTick(uint32_t tick) {
    tick_.store(tick, std::memory_order_relaxed);
    ForEach([tick](List& list) { list.set_tick(tick); });
  }

  // Batches that came and went since the start. Of groups objects come and go one by one.
  uint64_t moves() {
    uint64_t sum = 0;
    for (size_t c = 1; c < kNumClasses; ++c)
      if (const List* list = Find(static_cast<SizeClass>(c))) sum += list->moves();
    return sum + groups_.moves() / kMaxBatch;
  }

  Lock& making_lock() STRATA_RETURN_CAPABILITY(making_) { return making_; }

 private:
  // Null when memory is short.
  List* Made(SizeClass c) STRATA_EXCLUDES(making_) {
    List* list = Find(c);
    return STRATA_LIKELY(list != nullptr) ? list : Make(c);
  }

  STRATA_NOINLINE List* Make(SizeClass c) STRATA_EXCLUDES(making_) {
    LockHolder hold(making_);
    if (List* list = Find(c)) return list;
    // Of the heap's records: set aside with them (MetadataFor).
    void* memory = arena_.Allocate(sizeof(List), alignof(List), MetadataUse::kHeap);
    if (memory == nullptr) return nullptr;
    auto* list = ::new (memory) List();
    list->Init(c, &source_, order_);
    list->set_tick(tick_.load(std::memory_order_relaxed));
    lists_[Raw(c)].store(list, std::memory_order_release);
    return list;
  }

  Source& source_;
  MetadataArena& arena_;
  const SpanOrder order_;
  Lock making_{LockRank::kCentral};
  std::atomic<uint32_t> tick_{1};
  std::atomic<List*> lists_[kMaxClasses] = {};  // written under the lock, read without
  GroupedLists<Source> groups_;
};

}  // namespace strata
