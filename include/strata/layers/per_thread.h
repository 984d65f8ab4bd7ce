// Heaps for each thread or CPU over one shared heap below. PrivateHeaps: a block that is freed goes
// to the heap of whoever frees it (Cilk, STL: memory without bound when one thread allocates and
// another frees). OwnedHeaps: it goes back to the heap it came from, named in a header in front of
// it (Ptmalloc: at most P times the memory). `Which` says which heap is the caller's; heaps that
// two callers can share must lock, so the per-heap layers must make a thread-safe stack, unless
// Which gives each thread a heap of its own.
#pragma once

#include <atomic>

#include "strata/layers/cpu_index.h"
#include "strata/layers/heap.h"
#include "strata/layers/heap_array.h"
#include "strata/layers/ref.h"
#include "strata/layers/size_header.h"

namespace strata::layers {

// Says which of the heaps is the caller's, by a number that may be too large; and whether no two
// threads are ever told the same.
template <class W>
concept HeapChoice = requires {
  { W::index() } -> std::convertible_to<size_t>;
  { W::exclusive } -> std::convertible_to<bool>;
};

// Numbers threads in the order in which they first ask; exclusive while there are at most as many
// threads as heaps.
struct ThreadIndex {
  static constexpr bool exclusive = false;
  static size_t index() {
    static std::atomic<size_t> next{0};
    static thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
    return mine;
  }
};

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
  template <class F>
  void visit_locks(F&& f) {
    for (Slot& s : slots_) s.heap.visit_locks(f);
    Over<Below>::visit_locks(f);
  }

 protected:
  H& heap_at(size_t i) { return slots_[i].heap; }

 private:
  struct alignas(64) Slot {
    constexpr explicit Slot(Below& below) : heap(below) {}
    H heap;
  };

  HeapArray<Slot, kHeaps> slots_;
};

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
        "PrivateHeaps: put Locked on top of the per-heap layers");
    static_assert(internal::StandAlone<Private>(),
                  "PrivateHeaps: a block is freed into any of the heaps, so their layers must keep "
                  "nothing about blocks that are out, as FreeList, Bins and Bump do");
    static_assert(Below::thread_safe, "PrivateHeaps: the heap below is shared; it must lock");

   public:
    static constexpr size_t alignment = Private::alignment;
    static constexpr bool thread_safe = true;
    static constexpr bool one_size = internal::OneSize<Private, Below>();
    static constexpr bool blocks_stand_alone = internal::StandAlone<Private, Below>();

    using Base::Base;

    void* allocate(size_t size) { return Mine().allocate(size); }
    void deallocate(void* p, size_t size) { Mine().deallocate(p, size); }
    Private& heap(size_t i) { return this->heap_at(i); }

   private:
    Private& Mine() { return this->heap_at(Which::index() % kHeaps); }
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
    static size_t OwnerOf(void* p) { return Owned::header(p); }
  };
};

}  // namespace strata::layers
