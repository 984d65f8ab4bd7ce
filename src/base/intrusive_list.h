// A doubly linked list whose links live in its elements. Sits in base; used for spans and hugepage
// trackers. Not thread-safe: the owner's lock guards it.
#pragma once

#include "base/check.h"

namespace strata {

// T derives from ListNode<T>. An element is on at most one list at a time.
template <class T>
struct ListNode {
  T* list_prev = nullptr;
  T* list_next = nullptr;
};

template <class T>
class IntrusiveList {
 public:
  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }
  T* last() const { return last_; }
  static T* Next(const T* t) { return t->list_next; }
  static T* Previous(const T* t) { return t->list_prev; }

  void PushFront(T* t) {
    t->list_prev = nullptr;
    t->list_next = first_;
    (first_ != nullptr ? first_->list_prev : last_) = t;
    first_ = t;
  }

  void PushBack(T* t) {
    t->list_next = nullptr;
    t->list_prev = last_;
    (last_ != nullptr ? last_->list_next : first_) = t;
    last_ = t;
  }

  void Remove(T* t) {
    STRATA_DCHECK(t->list_prev != nullptr || first_ == t);
    (t->list_prev != nullptr ? t->list_prev->list_next : first_) = t->list_next;
    (t->list_next != nullptr ? t->list_next->list_prev : last_) = t->list_prev;
    t->list_prev = t->list_next = nullptr;
  }

  T* PopFront() {
    T* t = first_;
    if (t != nullptr) Remove(t);
    return t;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace strata
