// Listed: keeps its blocks on a list, so that all of them can be given back at once whatever the
// heap below is. Costs 32 bytes a block. For large blocks under a region or a pool.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

struct Listed {
  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= kDefaultAlignment, "Listed needs a heap aligned to 16 bytes");

   public:
    static constexpr size_t alignment = kDefaultAlignment;
    static constexpr bool thread_safe = false;

    using Over<Below>::Over;
    ~On() { clear(); }

    void* allocate(size_t size) {
      if (size > kMaxRequest - sizeof(Entry)) return nullptr;
      void* raw = this->next_.allocate(Whole(size));
      if (raw == nullptr) return nullptr;
      auto* e = ::new (raw) Entry{first_, nullptr, size};
      if (first_ != nullptr) first_->previous = e;
      first_ = e;
      return e + 1;
    }
    size_t size_of(void* p) { return EntryOf(p)->size; }
    void deallocate(void* p) { deallocate(p, size_of(p)); }
    void deallocate(void* p, size_t size) {
      Entry* e = EntryOf(p);
      if (e->next != nullptr) e->next->previous = e->previous;
      (e->previous != nullptr ? e->previous->next : first_) = e->next;
      this->next_.deallocate(e, Whole(size));
    }
    // What is out goes to lists below, which are not emptied again.
    void drain(size_t size) {
      clear();
      Over<Below>::drain(Whole(size));
    }
    void clear() {
      while (first_ != nullptr) {
        Entry* e = std::exchange(first_, first_->next);
        this->next_.deallocate(e, Whole(e->size));
      }
    }
    void forget() {
      first_ = nullptr;
      Over<Below>::forget();
    }

   private:
    struct alignas(16) Entry {
      Entry* next;
      Entry* previous;
      size_t size;
    };
    static_assert(sizeof(Entry) == 32);
    static constexpr size_t Whole(size_t size) { return AtLeastAByte(size) + sizeof(Entry); }
    static Entry* EntryOf(void* p) { return static_cast<Entry*>(p) - 1; }

    Entry* first_ = nullptr;
  };
};

}  // namespace strata::layers
