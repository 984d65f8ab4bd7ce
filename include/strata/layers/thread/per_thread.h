// Heaps for each thread or CPU over one shared heap below. PrivateHeaps: a block that is freed goes
// to the heap of whoever frees it (Cilk, STL: memory without bound when one thread allocates and
// another frees). OwnedHeaps: it goes back to the heap it came from, named in a header in front of
// it (Ptmalloc: at most P times the memory). `Which` says which heap is the caller's. Heaps that
// two callers can share must lock, so the layers of each must make a thread-safe stack; private
// heaps need none where Which gives each thread a heap of its own (ThreadIndex). Threads beyond
// those that there are heaps for share one more then, which locks.
#pragma once

#include "strata/layers/combine/header.h"
#include "strata/layers/detail/heap_array.h"
#include "strata/layers/heap.h"
#include "strata/layers/source/ref.h"
#include "strata/layers/thread/index.h"
#include "strata/layers/thread/locked.h"

namespace strata::layers {

namespace internal {

// kHeaps heaps over one below, on cache lines of their own.
template <class H, size_t kHeaps, Heap Below>
class OverHeaps : public Over<Below> {
 public:
  template <class... Args>
    requires std::constructible_from<Below, Args...>
  constexpr explicit OverHeaps(Args&&... args)
      : Over<Below>(std::forward<Args>(args)...), slots_(this->next_) {}

  // Nobody else may be at it.
  void clear()
    requires ClearableHeap<Below>
  {
    for (Slot& s : slots_) s.heap.forget();
    this->next_.clear();
  }
  void forget() {
    for (Slot& s : slots_) s.heap.forget();
    Over<Below>::forget();
  }
  void drain(size_t size) {
    for (Slot& s : slots_) s.heap.drain(size);
    Over<Below>::drain(size);
  }
  // Each may have memory of its own (TryFirst).
  bool owns(const void* p) const
    requires OwningHeap<Below>
  {
    if constexpr (OwningHeap<H>) {
      for (const Slot& s : slots_) {
        if (s.heap.owns(p)) return true;
      }
    }
    return this->next_.owns(p);
  }
  template <class F>
  void visit_locks(F&& f) {
    for (Slot& s : slots_) s.heap.visit_locks(f);
    Over<Below>::visit_locks(f);
  }

 protected:
  H& heap_at(size_t i) { return slots_[i].heap; }
  // Before any of them ends: where a block is freed into any heap, its lists may lie in memory of
  // another (Bump).
  void EmptyLists() {
    for (Slot& s : slots_) s.heap.empty_lists();
  }

 private:
  struct alignas(64) Slot {
    constexpr explicit Slot(Below& below) : heap(below) {}
    H heap;
  };

  HeapArray<Slot, kHeaps> slots_;
};

}  // namespace internal

namespace internal {

// How many numbers a choice has that are one thread's; all, unless it says.
template <class Which>
constexpr size_t MostOf() {
  if constexpr (requires { Which::most; }) return Which::most;
  return SIZE_MAX;
}

}  // namespace internal

template <size_t kHeaps, class Which, class... PerHeap>
struct PrivateHeaps {
  template <Heap Below>
  class On : public internal::OverHeaps<typename internal::StackOf<PerHeap..., Ref<Below>>::type,
                                        kHeaps, Below> {
    using Private = typename internal::StackOf<PerHeap..., Ref<Below>>::type;
    using Base = internal::OverHeaps<Private, kHeaps, Below>;
    static_assert(HeapChoice<Which>,
                  "PrivateHeaps: the second parameter must choose a heap, such as CpuIndex");
    static_assert(
        Private::thread_safe || requires { requires Which::exclusive; },
        "PrivateHeaps: put Locked on top of the per-heap layers, or choose by ThreadIndex");
    static_assert(internal::StandAlone<Private>(),
                  "PrivateHeaps: a block is freed into any of the heaps, so their layers must keep "
                  "nothing about blocks that are out, as FreeList, Bins and Bump do");
    static_assert(Below::thread_safe, "PrivateHeaps: the heap below is shared; it must lock");
    static_assert(!internal::ClearedFromAside<Private>(), "PrivateHeaps: Nested goes above it");
    static_assert(Private::thread_safe || kHeaps <= internal::MostOf<Which>(),
                  "PrivateHeaps: more heaps without a lock than its choice has numbers for "
                  "threads (ThreadIndex: 256)");

   public:
    static constexpr size_t alignment = Private::alignment;
    static constexpr bool thread_safe = true;
    static constexpr bool one_size = internal::OneSize<Private, Below>();
    static constexpr bool blocks_stand_alone = internal::StandAlone<Private, Below>();
    static constexpr bool blocks_as_below = internal::AsBelow<Private, Below>();

    template <class... Args>
      requires std::constructible_from<Below, Args...>
    constexpr explicit On(Args&&... args)
        : Base(std::forward<Args>(args)...), shared_(this->next_) {}
    ~On() {
      shared_.empty_lists();
      this->EmptyLists();
    }

    void* allocate(size_t size) {
      const size_t i = Which::index();
      if (HasOwn(i)) [[likely]]
        return Own(i).allocate(size);
      return shared_.allocate(size);
    }
    void deallocate(void* p, size_t size) {
      const size_t i = Which::index();
      if (HasOwn(i)) [[likely]]
        return Own(i).deallocate(p, size);
      shared_.deallocate(p, size);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      shared_.forget();
      Base::clear();
    }
    void forget() {
      shared_.forget();
      Base::forget();
    }
    void drain(size_t size) {
      shared_.drain(size);
      Base::drain(size);
    }
    template <class F>
    void visit_locks(F&& f) {
      shared_.visit_locks(f);
      Base::visit_locks(f);
    }
    Private& heap(size_t i) { return this->heap_at(i); }

   private:
    // Without locks, so that a number that is too large can't be another thread's, too.
    static constexpr bool kAlone = !Private::thread_safe;
    static bool HasOwn(size_t i) { return !kAlone || i < kHeaps; }
    Private& Own(size_t i) { return this->heap_at(kAlone ? i : i % kHeaps); }

    struct None {
      constexpr explicit None(Below&) {}
      void* allocate(size_t) { return nullptr; }
      void deallocate(void*, size_t) {}
      void forget() {}
      void drain(size_t) {}
      void empty_lists() {}
      template <class F>
      void visit_locks(F&&) {}
    };
    struct Shared : Locked::On<Private> {
      constexpr explicit Shared(Below& below) : Locked::On<Private>(below) {}
    };
    [[no_unique_address]] std::conditional_t<kAlone, Shared, None> shared_;
  };
};

template <size_t kHeaps, class Which, class... PerHeap>
struct OwnedHeaps {
  template <Heap Below>
  class On : public internal::OverHeaps<
                 typename internal::StackOf<Header<size_t>, PerHeap..., Ref<Below>>::type, kHeaps,
                 Below> {
    using Owned = typename internal::StackOf<Header<size_t>, PerHeap..., Ref<Below>>::type;
    using Base = internal::OverHeaps<Owned, kHeaps, Below>;
    static_assert(HeapChoice<Which>,
                  "OwnedHeaps: the second parameter must choose a heap, such as CpuIndex");
    static_assert(internal::StackOf<PerHeap..., Ref<Below>>::type::thread_safe,
                  "OwnedHeaps: any thread may free into a heap; put Locked on top of its layers");
    static_assert(Below::thread_safe, "OwnedHeaps: the heap below is shared; it must lock");
    static_assert(!internal::ClearedFromAside<Owned>(), "OwnedHeaps: Nested goes above it");

   public:
    static constexpr size_t alignment = Owned::alignment;
    static constexpr bool thread_safe = true;
    static constexpr bool one_size = internal::OneSize<Owned, Below>();

    using Base::Base;

    void* allocate(size_t size) {
      const size_t i = Which::index() % kHeaps;
      void* p = this->heap_at(i).allocate(size);
      if (p != nullptr) Owned::header(p) = i;
      return p;
    }
    void deallocate(void* p, size_t size) { this->heap_at(Owned::header(p)).deallocate(p, size); }
    static size_t owner_of(void* p) { return Owned::header(p); }
  };
};

}  // namespace strata::layers
