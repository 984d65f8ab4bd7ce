// Nested: regions in regions. A heap that can be cleared gets a parent; clearing the parent, or its
// end, clears all heaps made under it first, and theirs (the lifetimes of a request and of its
// parts). A heap whose parent is gone has nothing out and stands alone. One thread for a family. A
// layer above would not hear of a parent's clear, so that none there may keep anything: Nested is
// the top of a stack.
#pragma once

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
    // The arguments behind the parent are meant for the layers below.
    template <class... Args>
      requires std::constructible_from<Below, Args...>
    explicit On(On* parent, Args&&... args) : Through<Below>(std::forward<Args>(args)...) {
      if (parent != nullptr) set_parent(parent);
    }
    ~On() {
      clear();
      while (first_child_ != nullptr) first_child_->Leave();
      Leave();
    }

    void clear() {
      for (On* child = first_child_; child != nullptr; child = child->next_sibling_) child->clear();
      this->next_.clear();
    }

    On* parent() const { return parent_; }
    // Null: it stands alone. A heap can't lie within itself.
    void set_parent(On* parent) {
      for (const On* up = parent; up != nullptr; up = up->parent_) {
        if (up == this) DieOfMisuse("", "nested: a heap was to become its own parent");
      }
      Leave();
      if (parent == nullptr) return;
      parent_ = parent;
      next_sibling_ = parent->first_child_;
      if (next_sibling_ != nullptr) next_sibling_->previous_sibling_ = this;
      parent->first_child_ = this;
    }

   private:
    void Leave() {
      if (parent_ == nullptr) return;
      if (next_sibling_ != nullptr) next_sibling_->previous_sibling_ = previous_sibling_;
      if (previous_sibling_ != nullptr) {
        previous_sibling_->next_sibling_ = next_sibling_;
      } else {
        parent_->first_child_ = next_sibling_;
      }
      parent_ = next_sibling_ = previous_sibling_ = nullptr;
    }

    On* parent_ = nullptr;
    On* first_child_ = nullptr;
    On* next_sibling_ = nullptr;
    On* previous_sibling_ = nullptr;
  };
};

}  // namespace strata::layers
