// Bins: a heap for each size class over one shared heap below (segregated storage). Each bin is a
// small stack of its own, given as layers: Bins<PowersOfTwo<16, 4096>, FreeList>. Strict: a block
// never leaves its class. Sizes above the last class go below unchanged. Bins of layers that can be
// told the heap below by each call (FreeList, BoundedFreeList, Inbox) are as small as one would
// write them by hand: an array of list heads.
#pragma once

#include "strata/layers/combine/classes.h"
#include "strata/layers/detail/by_call.h"
#include "strata/layers/detail/heap_array.h"
#include "strata/layers/heap.h"
#include "strata/layers/source/ref.h"

namespace strata::layers {

template <class ClassesOfBins, class... PerBin>
struct Bins {
  static_assert(SizeClasses<ClassesOfBins>,
                "Bins: the first parameter must be size classes, such as PowersOfTwo<16, 4096>");

  template <Heap Below>
  class On : public Over<Below> {
    using Bin = typename internal::StackOf<PerBin..., Ref<Below>>::type;

    // Where the heap below knows sizes or aligns, a block may end in another bin than it came from.
    static_assert(internal::StandAlone<Bin>() || !(SizedHeap<Below> || AlignedHeap<Below>),
                  "Bins: what keeps account of its blocks (Count, Check, ...) belongs above Bins");
    // It knows nothing of those that were cut from its own (Bump) or shifted (SizeHeader).
    static constexpr bool kKnownBelow = internal::AsBelow<Bin>();

   public:
    using Classes = internal::ClassesOr<ClassesOfBins>;
    static constexpr size_t alignment = Bin::alignment;
    static constexpr size_t skew = internal::SkewOf<Bin>();
    static constexpr bool thread_safe = Bin::thread_safe && Below::thread_safe;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Bin, Below>();
    static constexpr bool blocks_as_below = internal::AsBelow<Bin, Below>();
    static constexpr bool cleared_from_aside = internal::ClearedFromAside<Bin, Below>();

    template <class... Args>
      requires std::constructible_from<Below, Args...>
    constexpr explicit On(Args&&... args)
        : Over<Below>(std::forward<Args>(args)...), bins_(this->next_) {}
    ~On() { bins_.drain(this->next_); }

    void* allocate(size_t size) {
      if (size > Classes::largest) [[unlikely]]
        return this->next_.allocate(size);
      const size_t c = Classes::of(size);
      return bins_.allocate(this->next_, c);
    }
    void deallocate(void* p, size_t size) {
      if (size > Classes::largest) [[unlikely]]
        return this->next_.deallocate(p, size);
      const size_t c = Classes::of(size);
      bins_.deallocate(this->next_, p, c);
    }

    // Over a heap that knows sizes: a block goes to the largest class that it can serve.
    void deallocate(void* p)
      requires(kKnownBelow && SizedHeap<Below>)
    {
      const size_t size = this->next_.size_of(p);
      if (size > kLargestKept || size < Classes::size(0)) [[unlikely]]
        return this->next_.deallocate(p);
      const size_t c = internal::ClassWithin<Classes>(size);
      bins_.deallocate(this->next_, p, c);
    }
    void* allocate(size_t size, size_t align)
      requires(kKnownBelow && AlignedHeap<Below>)
    {
      return this->next_.allocate(WholeClass(size), align);
    }

    bool resize(void* p, size_t size)
      requires(kKnownBelow && ResizableHeap<Below>)
    {
      return this->next_.resize(p, WholeClass(size));
    }
    void* remap(void* p, size_t size)
      requires(kKnownBelow && RemappingHeap<Below>)
    {
      return this->next_.remap(p, WholeClass(size));
    }
    // One of a size that is kept here may have been somebody's.
    bool reads_zero(void* p)
      requires(kKnownBelow && SizedHeap<Below> && ZeroKnowingHeap<Below>)
    {
      return this->next_.size_of(p) > kLargestKept && this->next_.reads_zero(p);
    }
    size_t size_of(void* p)
      requires(kKnownBelow && SizedHeap<Below>)
    {
      return this->next_.size_of(p);
    }

    void* allocate_kept(size_t size)
      requires KeepingHeap<Bin>
    {
      return size > Classes::largest ? nullptr : allocate_kept_of_class(Classes::of(size));
    }

    // For a layer that keeps the class of each block.
    void* allocate_kept_of_class(size_t c)
      requires KeepingHeap<Bin>
    {
      return bins_[c].allocate_kept(Bytes(c));
    }
    void deallocate_of_class(void* p, size_t c) { bins_.deallocate(this->next_, p, c); }

    template <class F>
    void visit_locks(F&& f) {
      if constexpr (!kByCall) {
        for (auto& b : bins_.all) b.visit_locks(f);
      }
      Over<Below>::visit_locks(f);
    }
    void forget() {
      for (auto& b : bins_.all) b.forget();
      Over<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      for (auto& b : bins_.all) b.forget();
      this->next_.clear();
    }
    // What lies in the bins first, for it goes to the lists below.
    void drain(size_t size) {
      bins_.drain(this->next_);
      Over<Below>::drain(WholeClass(size));
    }
    void empty_lists() {
      bins_.drain(this->next_);
      Over<Below>::empty_lists();
    }
    // A bin may have memory of its own (TryFirst).
    bool owns(const void* p) const
      requires OwningHeap<Below>
    {
      if constexpr (!kByCall && OwningHeap<Bin>) {
        for (const Bin& b : bins_.all) {
          if (b.owns(p)) return true;
        }
      }
      return this->next_.owns(p);
    }
    auto& bin(size_t c) { return bins_[c]; }

   private:
    // A block a little larger than the last class was cut for it all the same.
    static constexpr size_t kLargestKept = Classes::largest + kDefaultAlignment;

    // Of class c's blocks: a free one holds a link.
    static constexpr size_t Bytes(size_t c) {
      const size_t bytes = Classes::size(c);
      return Classes::size(0) < sizeof(void*) && bytes < sizeof(void*) ? sizeof(void*) : bytes;
    }
    // A block of any size up to the last class's serves its whole class when it comes back.
    static constexpr size_t WholeClass(size_t size) {
      return size > Classes::largest ? size : Bytes(Classes::of(size));
    }

    static constexpr bool kByCall = internal::AllByCall<PerBin...>;

    // Each with a pointer at its end.
    struct Whole {
      constexpr explicit Whole(Below& below) : all(below) {}
      Bin& operator[](size_t c) { return all[c]; }
      void* allocate(Below&, size_t c) { return all[c].allocate(Bytes(c)); }
      void deallocate(Below&, void* p, size_t c) { all[c].deallocate(p, Bytes(c)); }
      void drain(Below&) {
        for (size_t c = 0; c < Classes::count; ++c) {
          if constexpr (requires { all[c].drain(c); }) all[c].drain(Bytes(c));
        }
      }
      HeapArray<Bin, Classes::count> all;
    };
    struct Told {
      constexpr explicit Told(Below&) {}
      auto& operator[](size_t c) { return all[c]; }
      // In parts, where that can be, for gcc's sake (free_list.h).
      void* allocate(Below& below, size_t c) {
        if constexpr (requires { all[c].empty(), all[c].pop(); }) {
          if (all[c].empty()) [[unlikely]]
            return all[c].refill(below, Bytes(c));
          return all[c].pop();
        } else {
          return all[c].allocate(below, Bytes(c));
        }
      }
      void deallocate(Below& below, void* p, size_t c) {
        if constexpr (requires { all[c].push_on(all[c].newest(), p); }) {
          all[c].push_on(all[c].newest(), p);
        } else {
          all[c].deallocate(below, p, Bytes(c));
        }
      }
      void drain(Below& below) {
        for (size_t c = 0; c < Classes::count; ++c) all[c].drain(below, Bytes(c));
      }
      internal::ByCall<PerBin...> all[Classes::count];
    };

    std::conditional_t<kByCall, Told, Whole> bins_;
  };
};

}  // namespace strata::layers
