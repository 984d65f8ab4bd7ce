// The contract of the layer library: what a heap is, how layers are stacked. A stack is written as
// a flat list, read from the top: Stack<Locked, Count, FreeList, Bump<>, Mmap> is a heap whose
// calls pass through Locked first and whose memory comes from Mmap. A layer is a small struct with
// a member template On<Next>; the heap below is a member of it, never a base class, so nothing is
// overridden by accident and an empty layer costs nothing.
//
// After Berger, Zorn, McKinley: Composing High-Performance Memory Allocators (PLDI 2001).
#pragma once

#include <bit>
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
// The bytes behind a block up to the next multiple of `alignment` are the block's too, even when
// none was asked for: a free list keeps its link there.
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
// The same for a block: one of no bytes has an address of its own too.
constexpr size_t RoundUpBlock(size_t n, size_t unit) { return RoundUp(n + (n == 0), unit); }
// n > 0. With ^ instead of -, gcc sees that it undoes what countl_zero did to x86's bsr.
constexpr size_t Log2(size_t n) { return 63 ^ static_cast<size_t>(std::countl_zero(n)); }
constexpr bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

namespace internal {

template <class H>
constexpr size_t SkewOf() {
  if constexpr (requires { H::skew; }) return H::skew;
  return 0;
}

template <class... Layers>
struct StackOf;

template <class Source>
struct StackOf<Source> {
  static_assert(Heap<Source>, "the last of a stack must be a source: a heap that needs no other");
  using type = Source;
};

template <class Top, class... Rest>
  requires(sizeof...(Rest) != 0)
struct StackOf<Top, Rest...> {
  using type = typename Top::template On<typename StackOf<Rest...>::type>;
};

}  // namespace internal

template <class... Layers>
using Stack = typename internal::StackOf<Layers...>::type;

// The part of a layer's On that is the same in all of them: the heap below as a member, and the
// operations that go through unchanged unless the layer has its own. Constructor arguments that a
// layer does not want are meant for the layers below.
template <Heap NextHeap>
class Through {
 public:
  using Next = NextHeap;
  static constexpr size_t alignment = Next::alignment;
  static constexpr bool thread_safe = Next::thread_safe;
  // Blocks lie this many bytes behind a multiple of 16, so that what follows a header of as many
  // bytes is aligned (Bump).
  static constexpr size_t skew = internal::SkewOf<Next>();

  template <class... Args>
    requires std::constructible_from<Next, Args...>
  constexpr explicit Through(Args&&... args) : next_(std::forward<Args>(args)...) {}
  Through(const Through&) = delete;
  Through& operator=(const Through&) = delete;

  void* allocate(size_t size) { return next_.allocate(size); }
  void deallocate(void* p, size_t size) { next_.deallocate(p, size); }
  void deallocate(void* p)
    requires SizedHeap<Next>
  {
    next_.deallocate(p);
  }
  size_t size_of(void* p)
    requires SizedHeap<Next>
  {
    return next_.size_of(p);
  }
  bool owns(const void* p) const
    requires OwningHeap<Next>
  {
    return next_.owns(p);
  }
  void clear()
    requires ClearableHeap<Next>
  {
    next_.clear();
  }

  // Drops what this layer and those below keep of blocks, without giving them back: the memory
  // they lie in is about to go as a whole.
  void forget() {
    if constexpr (requires(Next& n) { n.forget(); }) next_.forget();
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

// The part of a stack that was made by `Layer`, counted from the top: layer<Count>(heap).
template <class Layer, class H>
auto& layer(H& heap) {
  if constexpr (requires { typename Layer::template On<typename H::Next>; }) {
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
