// The central free lists of objects that lie in groups (base/object_group.h): one for each group
// and class that the program uses, made when it first does, so that a process without groups has
// none. Their objects go to the program and come back one by one, never through the caches, which
// know classes only. Sits in heaps, beside central_lists.h.
//
// Thread-safe: one lock a list, and one to make a list, which forks take before those.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/object_group.h"
#include "span/central_free_list.h"
#include "span/size_classes.h"

namespace strata {

template <class Source>
class GroupedLists {
 public:
  using List = CentralFreeList<Source>;

  GroupedLists(Source& source, MetadataArena& arena, SpanOrder order)
      : source_(source), arena_(arena), order_(order) {}
  GroupedLists(const GroupedLists&) = delete;
  GroupedLists& operator=(const GroupedLists&) = delete;

  // Null when memory is short.
  void* Take(SizeClass c, ObjectGroup g) STRATA_EXCLUDES(making_) {
    Entry* entry = Find(c, g);
    if (STRATA_UNLIKELY(entry == nullptr)) entry = Make(c, g);
    void* object = nullptr;
    return entry != nullptr && entry->list.Take(&object, 1) == 1 ? object : nullptr;
  }
  // The list that a span of the group came from.
  List& Of(SizeClass c, ObjectGroup g) { return Find(c, g)->list; }

  // Calls f(List&) for each that there is.
  template <class F>
  void ForEach(F f) {
    for (Entry* e = First(); e != nullptr; e = e->next) f(e->list);
  }
  template <class F>
  void ForEachOf(SizeClass c, F f) {
    for (Entry* e = First(); e != nullptr; e = e->next)
      if (e->size_class == c) f(e->list);
  }

  // See IdleSearch. Background thread only.
  void SurveyIdle(uint32_t before) {
    for (Entry* e = First(); e != nullptr; e = e->next) e->idle = e->list.SurveyIdle(before);
  }
  template <class F>
  void ForEachSurveyed(F f) {
    for (Entry* e = First(); e != nullptr; e = e->next)
      if (e->idle) f(e->list);
  }

  // In the program's hands.
  size_t BytesIn(ObjectGroup g) {
    size_t bytes = 0;
    for (Entry* e = First(); e != nullptr; e = e->next)
      if (e->group == g) bytes += e->list.objects_out() * InfoOf(e->size_class).size;
    return bytes;
  }
  uint64_t moves() {
    uint64_t sum = 0;
    ForEach([&sum](List& list) { sum += list.moves(); });
    return sum;
  }

  Lock& making_lock() STRATA_RETURN_CAPABILITY(making_) { return making_; }

 private:
  struct Entry {
    List list;
    Entry* next = nullptr;
    SizeClass size_class = SizeClass::kNone;
    ObjectGroup group = ObjectGroup::kNone;
    bool idle = false;  // the last survey found something
  };
  struct Row {
    std::atomic<Entry*> of_class[kNumSizes + 1];
  };

  // acquire, in these two: pairs with the releases in Make, so that what is found is seen whole.
  Entry* First() const { return first_.load(std::memory_order_acquire); }
  Entry* Find(SizeClass c, ObjectGroup g) const {
    const Row* row = rows_[Raw(g)].load(std::memory_order_acquire);
    return row == nullptr ? nullptr : row->of_class[Raw(c)].load(std::memory_order_acquire);
  }

  STRATA_NOINLINE Entry* Make(SizeClass c, ObjectGroup g) STRATA_EXCLUDES(making_) {
    LockHolder hold(making_);
    if (Entry* entry = Find(c, g)) return entry;
    Row* row = rows_[Raw(g)].load(std::memory_order_relaxed);
    if (row == nullptr) {
      row = static_cast<Row*>(arena_.Allocate(sizeof(Row), alignof(Row)));  // zeroed
      if (row == nullptr) return nullptr;
      rows_[Raw(g)].store(row, std::memory_order_release);
    }
    void* memory = arena_.Allocate(sizeof(Entry), alignof(Entry));
    if (memory == nullptr) return nullptr;
    auto* entry = ::new (memory) Entry();
    entry->list.Init(c, &source_, order_, g);
    entry->size_class = c;
    entry->group = g;
    entry->next = first_.load(std::memory_order_relaxed);
    first_.store(entry, std::memory_order_release);
    row->of_class[Raw(c)].store(entry, std::memory_order_release);
    return entry;
  }

  Source& source_;
  MetadataArena& arena_;
  const SpanOrder order_;
  Lock making_{LockRank::kCentral};
  std::atomic<Entry*> first_{nullptr};  // these two are written under the lock, read without
  std::atomic<Row*> rows_[kNumObjectGroups] = {};
};

}  // namespace strata
