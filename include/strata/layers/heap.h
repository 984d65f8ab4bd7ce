// The contract of the layer library: what a heap is, how layers are stacked. A stack is a flat
// list, read from the top: in Stack<Locked, FreeList, Bump<>, Mmap>, calls pass through Locked
// first and memory comes from Mmap. A layer is a small struct with a member template On<Next>; the
// heap below is a member of it, never a base class, so nothing is overridden by accident and an
// empty layer costs nothing (after Berger, Zorn, McKinley: Composing High-Performance Memory
// Allocators, 2001).
#pragma once

#if __cplusplus < 202002L
#error "strata/layers needs C++20: compile with -std=c++20"
#endif

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace strata::layers {

// What every heap gives:
//   void* allocate(size_t size)          at least `size` bytes aligned to `alignment`, or null
//   void deallocate(void* p, size_t size)  a block of allocate, with the size asked for; not null
//   alignment      of every block, in bytes
//   thread_safe    whether threads may share the heap without help
// A null from allocate has changed nothing that a caller could see, and neither call changes errno.
template <class H>
concept Heap = requires(H& h, void* p, size_t n) {
  { h.allocate(n) } -> std::same_as<void*>;
  { h.deallocate(p, n) } -> std::same_as<void>;
  { H::alignment } -> std::convertible_to<size_t>;
  { H::thread_safe } -> std::convertible_to<bool>;
};

// A heap that finds the size by itself. size_of gives what the block holds, at least what was
// asked.
template <class H>
concept SizedHeap = Heap<H> && requires(H& h, void* p) {
  { h.size_of(p) } -> std::same_as<size_t>;
  { h.deallocate(p) } -> std::same_as<void>;
};

// A heap that aligns to more than `alignment`, which must be a power of two; such a block comes
// back as any other.
template <class H>
concept AlignedHeap = Heap<H> && requires(H& h, size_t n, size_t align) {
  { h.allocate(n, align) } -> std::same_as<void*>;
};

// A heap that keeps blocks and can hand one out without asking the heap below. Null: it has none
// at hand, and allocate() may still have one. What calls nothing else needs no stack frame.
template <class H>
concept KeepingHeap = Heap<H> && requires(H& h, size_t n) {
  { h.allocate_kept(n) } -> std::same_as<void*>;
};

// A heap that may change a block's size where it lies; false has changed nothing.
template <class H>
concept ResizableHeap = SizedHeap<H> && requires(H& h, void* p, size_t n) {
  { h.resize(p, n) } -> std::same_as<bool>;
};

// A heap that may move a block more cheaply than by a copy. Null: it can't, and nothing has
// changed.
template <class H>
concept RemappingHeap = SizedHeap<H> && requires(H& h, void* p, size_t n) {
  { h.remap(p, n) } -> std::same_as<void*>;
};

// A heap that knows whether a block that was just handed out reads as zero.
template <class H>
concept ZeroKnowingHeap = Heap<H> && requires(H& h, void* p) {
  { h.reads_zero(p) } -> std::same_as<bool>;
};

// A heap that can take back all its blocks at once.
template <class H>
concept ClearableHeap = Heap<H> && requires(H& h) {
  { h.clear() } -> std::same_as<void>;
};

// A heap that knows its own blocks from others'.
template <class H>
concept OwningHeap = Heap<H> && requires(const H& h, const void* p) {
  { h.owns(p) } -> std::convertible_to<bool>;
};

// The largest request that any heap has to answer with more than null.
inline constexpr size_t kMaxRequest = PTRDIFF_MAX;
inline constexpr size_t kDefaultAlignment = 16;

constexpr size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) & ~(unit - 1); }
// For a block: one of no bytes has an address of its own too.
constexpr size_t AtLeastAByte(size_t n) { return n + (n == 0); }
constexpr size_t RoundUpBlock(size_t n, size_t unit) { return RoundUp(AtLeastAByte(n), unit); }
// n > 0. With ^ instead of -, gcc sees that it undoes what clz did to x86's bsr. (countl_zero has
// an answer for 0, of which gcc 12 warns where a class is the index of an array.)
constexpr size_t Log2(size_t n) { return 63 ^ static_cast<size_t>(__builtin_clzl(n)); }
constexpr bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

namespace internal {

template <class H>
constexpr size_t SkewOf() {
  if constexpr (requires { H::skew; }) return H::skew;
  return 0;
}

// Whether a block may be freed into another heap of the same type over the same heap below, as
// PrivateHeaps does: nothing is kept about blocks that are out, and no free looks at a neighbour.
// A heap that does not say so is taken not to be so.
template <class... H>
constexpr bool StandAlone() {
  constexpr auto of = []<class One>(std::type_identity<One>) {
    if constexpr (requires { One::blocks_stand_alone; }) return bool{One::blocks_stand_alone};
    return false;
  };
  return (of(std::type_identity<H>()) && ...);
}

// Whether a heap's blocks are the very ones that the last of its stack handed out, so that this one
// may be asked about them, as Bins does. A heap that does not say so is taken to cut or shift them.
template <class... H>
constexpr bool AsBelow() {
  constexpr auto of = []<class One>(std::type_identity<One>) {
    if constexpr (requires { One::blocks_as_below; }) return bool{One::blocks_as_below};
    return false;
  };
  return (of(std::type_identity<H>()) && ...);
}

// Whether all requests to a heap must be for one number of bytes, because it hands out any block
// that it keeps for any request (FreeList). Fixed and Bins see to that. A layer above
// such a heap that is itself for any size asks it for sizeof(void*) at least: a free block holds a
// link.
template <class... H>
constexpr bool OneSize() {
  constexpr auto of = []<class One>(std::type_identity<One>) {
    if constexpr (requires { One::one_size; }) return bool{One::one_size};
    return false;
  };
  return (of(std::type_identity<H>()) || ...);
}

// Whether a heap may be cleared by another one of its kind, of which layers above it do not hear
// (Nested). What is above must keep nothing then: it adds no byte to the heap.
template <class... H>
constexpr bool ClearedFromAside() {
  constexpr auto of = []<class One>(std::type_identity<One>) {
    if constexpr (requires { One::cleared_from_aside; }) return bool{One::cleared_from_aside};
    return false;
  };
  return (of(std::type_identity<H>()) || ...);
}
template <class Top, class Below>
constexpr bool MayMissClears() {
  if constexpr (ClearedFromAside<Below>()) return sizeof(Top) == sizeof(Below);
  return true;
}

// What stands for a heap that did not fit, so that the message about it is not followed by pages.
struct Misfit {
  static constexpr size_t alignment = 4096;
  static constexpr bool thread_safe = true;
  static constexpr bool blocks_stand_alone = true;
  void* allocate(size_t) { return nullptr; }
  void deallocate(void*, size_t) {}
};

template <class T, class Below>
concept LayerOver = requires { typename T::template On<Below>; };

template <class... Layers>
struct StackOf {
  static_assert(sizeof...(Layers) != 0, "a stack needs a source at least, such as Mmap");
  using type = Misfit;
};

template <class Source>
struct StackOf<Source> {
  static constexpr bool kIsLayer = LayerOver<Source, Misfit>;
  static_assert(!kIsLayer, "the last of a stack must be a source: a layer needs a heap below it");
  static_assert(kIsLayer || Heap<Source>,
                "a source must be a heap: allocate(size), deallocate(p, size), alignment and "
                "thread_safe");
  using type = std::conditional_t<Heap<Source>, Source, Misfit>;
};

template <class Top, class Below>
struct LayerOn {
  using type = Misfit;
};
template <class Top, class Below>
  requires LayerOver<Top, Below>
struct LayerOn<Top, Below> {
  using type = typename Top::template On<Below>;
};

template <class Top, class... Rest>
  requires(sizeof...(Rest) != 0)
struct StackOf<Top, Rest...> {
  using Below = typename StackOf<Rest...>::type;
  static_assert(Heap<Below>,
                "the On of a layer must be a heap: allocate(size), "
                "deallocate(p, size), alignment and thread_safe");
  static_assert(!Heap<Below> || LayerOver<Top, Below>,
                "all of a stack but the last must be layers: a struct with a template On<Below>");
  using On = typename LayerOn<Top, Below>::type;
  static constexpr bool kMayStand = MayMissClears<On, Below>();
  static_assert(kMayStand,
                "what is above Nested must keep nothing, for it does not hear of a parent's clear: "
                "put Nested above it");
  using type = std::conditional_t<kMayStand, On, Misfit>;
};

// What to ask a heap of blocks of one size for, where that is `bytes`: a free block holds a link.
template <class H>
constexpr size_t ForOneSize(size_t bytes) {
  return OneSize<H>() && bytes < sizeof(void*) ? sizeof(void*) : bytes;
}

// A heap for requests of any size.
template <class H>
struct ForAnySize {
  static_assert(!OneSize<H>(),
                "FreeList and Inbox hand out any block that they keep: put Fixed<bytes> or Bins "
                "above them, so that all requests are for one size");
  using type = std::conditional_t<OneSize<H>(), Misfit, H>;
};

}  // namespace internal

template <class... Layers>
using Stack = typename internal::ForAnySize<typename internal::StackOf<Layers...>::type>::type;

// The part of a layer's On that is the same in all of them: the heap below as a member, its facts,
// and what holds whatever the layer makes of the memory. For layers whose blocks are not the ones
// that the heap below handed out: they cut, keep or extend them. Constructor arguments that a layer
// does not want are meant for the layers below.
template <Heap NextHeap>
class Over {
 public:
  using Next = NextHeap;
  static constexpr size_t alignment = Next::alignment;
  static constexpr bool thread_safe = Next::thread_safe;
  // Blocks lie this many bytes behind a multiple of 16, so that what follows a header of as many
  // bytes is aligned (Bump).
  static constexpr size_t skew = internal::SkewOf<Next>();
  static constexpr bool one_size = internal::OneSize<Next>();
  static constexpr bool cleared_from_aside = internal::ClearedFromAside<Next>();

  template <class... Args>
    requires std::constructible_from<Next, Args...>
  constexpr explicit Over(Args&&... args) : next_(std::forward<Args>(args)...) {}
  Over(const Over&) = delete;
  Over& operator=(const Over&) = delete;

  // All memory comes from below.
  bool owns(const void* p) const
    requires OwningHeap<Next>
  {
    return next_.owns(p);
  }

  // Drops what this layer and those below keep of blocks, without giving them back: the memory
  // they lie in is about to go as a whole.
  void forget() {
    if constexpr (requires(Next& n) { n.forget(); }) next_.forget();
  }

  // Sends what is kept of blocks that are all of `size` bytes down. Who sees to it that they are
  // calls this at its end (Fixed), so that a list of them need not know it. A layer that takes more
  // from below than it is asked for tells those below how much.
  void drain(size_t size) {
    if constexpr (internal::OneSize<Next>()) {
      if constexpr (requires(Next& n) { n.drain(size); }) next_.drain(size);
    }
  }

  // Sends what lists of many sizes keep to below, before a heap ends that others' lists lead into.
  void empty_lists() {
    if constexpr (requires(Next& n) { n.empty_lists(); }) next_.empty_lists();
  }

  // Calls f(lock) for each lock, in the order in which they may be held together: a fork takes all
  // of them before and lets go of them after, in both processes.
  template <class F>
  void visit_locks(F&& f) {
    if constexpr (requires(Next& n) { n.visit_locks(f); }) next_.visit_locks(f);
  }

  Next& next() { return next_; }
  const Next& next() const { return next_; }

 protected:
  [[no_unique_address]] Next next_;
};

// The same for layers that hand out the blocks of the heap below as they are: what a layer does not
// have itself goes through, with whatever the heap below can do. A layer with an allocate or a
// deallocate of its own hides all of that name, and has to say so for each of them.
// tests/layers/operations_test.cpp says for every layer what it keeps.
template <Heap NextHeap>
class Through : public Over<NextHeap> {
 public:
  using Next = NextHeap;
  // A layer that keeps records of blocks, or lists of them, says no.
  static constexpr bool blocks_stand_alone = internal::StandAlone<Next>();
  static constexpr bool blocks_as_below = internal::AsBelow<Next>();
  using Over<NextHeap>::Over;

  void* allocate(size_t size) { return this->next_.allocate(size); }
  void* allocate(size_t size, size_t align)
    requires AlignedHeap<Next>
  {
    return this->next_.allocate(size, align);
  }
  void deallocate(void* p, size_t size) { this->next_.deallocate(p, size); }
  void deallocate(void* p)
    requires SizedHeap<Next>
  {
    this->next_.deallocate(p);
  }
  size_t size_of(void* p)
    requires SizedHeap<Next>
  {
    return this->next_.size_of(p);
  }
  bool resize(void* p, size_t size)
    requires ResizableHeap<Next>
  {
    return this->next_.resize(p, size);
  }
  void* remap(void* p, size_t size)
    requires RemappingHeap<Next>
  {
    return this->next_.remap(p, size);
  }
  bool reads_zero(void* p)
    requires ZeroKnowingHeap<Next>
  {
    return this->next_.reads_zero(p);
  }
  void clear()
    requires ClearableHeap<Next>
  {
    this->next_.clear();
  }
};

// The part of a stack that was made by `Layer`, counted from the top: layer<Count>(heap).
template <class Layer, class H>
auto& layer(H& heap) {
  constexpr bool kIsLayer = requires(H& h) {
    typename H::Next;
    h.next();
  };
  static_assert(kIsLayer, "layer: the heap has no such layer");
  if constexpr (!kIsLayer) {
    return heap;
  } else if constexpr (requires { typename Layer::template On<typename H::Next>; }) {
    if constexpr (std::same_as<typename Layer::template On<typename H::Next>, H>) {
      return heap;
    } else {
      return layer<Layer>(heap.next());
    }
  } else {
    return layer<Layer>(heap.next());
  }
}

}  // namespace strata::layers
