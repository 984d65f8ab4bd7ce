// Layers of which there are many over one heap, as Bins has them: each call tells them that heap,
// so that none of them has a pointer to it, nor the size of its blocks. A layer that can be used so
// has a type Alone, its state, with
//   void* allocate(Next& next, size_t size)
//   void deallocate(Next& next, void* p, size_t size)
//   void drain(Next& next, size_t size)   sends what it keeps, blocks of `size` bytes, to `next`
//   void forget()
// and its On is that over a heap of its own.
#pragma once

#include <cassert>

#include "strata/layers/heap.h"

namespace strata::layers::internal {

template <class... Layers>
concept AllByCall = sizeof...(Layers) != 0 && (requires { typename Layers::Alone; } && ...);

template <class H>
concept FreesWithoutSize = requires(H& h, void* p) { h.deallocate(p); };

// Where the heap does not look for the size by itself, it is told.
template <class Next>
void GiveDown(Next& next, void* p, size_t size) {
  if constexpr (FreesWithoutSize<Next>) {
    next.deallocate(p);
  } else {
    next.deallocate(p, size);
  }
}

// One over a heap of its own. It looks at no size, so all its blocks are of one.
template <class Alone, Heap Below>
class OnAlone : public Over<Below> {
 public:
  static constexpr bool thread_safe = false;
  static constexpr bool one_size = true;
  static constexpr bool blocks_stand_alone = StandAlone<Below>();
  static constexpr bool blocks_as_below = AsBelow<Below>();

  using Over<Below>::Over;
  // Over a heap that does not know sizes, whoever is above has called drain(size) before.
  ~OnAlone() {
    if constexpr (SizedHeap<Below>) alone_.drain(this->next_, 0);
  }

  void* allocate(size_t size) {
    assert(size >= sizeof(void*) && "a free block holds a link");
    return alone_.allocate(this->next_, size);
  }
  void* allocate_kept(size_t size)
    requires requires(Alone& a) { a.allocate_kept(size); }
  {
    return alone_.allocate_kept(size);
  }
  void deallocate(void* p, size_t size) { alone_.deallocate(this->next_, p, size); }
  void drain(size_t size) {
    alone_.drain(this->next_, size);
    Over<Below>::drain(size);
  }
  void forget() {
    alone_.forget();
    Over<Below>::forget();
  }
  void clear()
    requires ClearableHeap<Below>
  {
    alone_.forget();
    this->next_.clear();
  }

 protected:
  const Alone& alone() const { return alone_; }
  Alone& alone() { return alone_; }

 private:
  Alone alone_;
};

template <class... Layers>
class ByCall;

template <class Last>
class ByCall<Last> : public Last::Alone {};

template <class Top, class... Rest>
  requires(sizeof...(Rest) != 0)
class ByCall<Top, Rest...> : public Top::Alone {
  using Alone = typename Top::Alone;

  // What is below Top.
  template <class Below>
  struct Then {
    ByCall<Rest...>& rest;
    Below& below;
    void* allocate(size_t size) { return rest.allocate(below, size); }
    void deallocate(void* p, size_t size) { rest.deallocate(below, p, size); }
  };

 public:
  template <class Below>
  void* allocate(Below& below, size_t size) {
    Then<Below> then{rest_, below};
    return Alone::allocate(then, size);
  }
  template <class Below>
  void* refill(Below& below, size_t size) {
    return rest_.allocate(below, size);
  }
  template <class Below>
  void deallocate(Below& below, void* p, size_t size) {
    Then<Below> then{rest_, below};
    Alone::deallocate(then, p, size);
  }
  template <class Below>
  void drain(Below& below, size_t size) {
    Then<Below> then{rest_, below};
    Alone::drain(then, size);
    rest_.drain(below, size);
  }
  void forget() {
    Alone::forget();
    rest_.forget();
  }
  ByCall<Rest...>& next() { return rest_; }

 private:
  ByCall<Rest...> rest_;
};

}  // namespace strata::layers::internal
