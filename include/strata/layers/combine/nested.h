// Nested: regions in regions. A heap that can be cleared gets a parent; clearing the parent, or its
// end, clears all heaps made under it first, and theirs (the lifetimes of a request and of its
// parts). A heap whose parent is gone has nothing out and stands alone. One thread for a family. A
// layer above would not hear of a parent's clear, so that none there may keep anything: Nested is
// the top of a stack.
#pragma once

#include "strata/layers/detail/family.h"
#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

struct Nested {
  template <Heap Below>
  class On : public Through<Below> {
    static_assert(ClearableHeap<Below>, "Nested needs a heap that can be cleared, such as Bump");

   public:
    static constexpr bool thread_safe = false;
    static constexpr bool cleared_from_aside = true;

    On() = default;
    // Arguments are meant for the layers below, but for a parent in front of them.
    template <class First, class... Args>
      requires(std::constructible_from<Below, First, Args...> && !std::convertible_to<First, On*>)
    explicit On(First&& first, Args&&... args)
        : Through<Below>(std::forward<First>(first), std::forward<Args>(args)...) {}
    template <class... Args>
      requires std::constructible_from<Below, Args...>
    explicit On(On* parent, Args&&... args) : Through<Below>(std::forward<Args>(args)...) {
      if (parent != nullptr) set_parent(parent);
    }
    ~On() {
      clear();
      while (On* child = links_.first_child) Tree::Leave(child);
      Tree::Leave(this);
    }

    void clear() {
      Tree::VisitBelow(this, [](On* child) { child->next_.clear(); });
      this->next_.clear();
    }

    On* parent() const { return links_.parent; }
    // Null: it stands alone. A heap can't lie within itself.
    void set_parent(On* parent) {
      if (Tree::IsWithin(parent, this))
        DieOfMisuse("", "nested: a heap was to become its own parent");
      Tree::Leave(this);
      Tree::Join(this, parent);
    }

   private:
    FamilyLinks<On> links_;
    using Tree = Family<On, &On::links_>;
  };
};

}  // namespace strata::layers
