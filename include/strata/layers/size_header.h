// SizeHeader: writes the size in front of each block, so that the heap above it frees without being
// told. 16 bytes a block. Header<T> puts a record of the user's there instead.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// kBytes of header in front of each block; header(p) is of type T.
template <class T>
struct Header {
  template <Heap Below>
  class On : public Through<Below> {
    static_assert(std::is_trivially_destructible_v<T>, "Header: a record without a destructor");

   public:
    static constexpr size_t header_bytes = RoundUp(sizeof(T), kDefaultAlignment);
    static constexpr size_t alignment =
        Below::alignment < kDefaultAlignment ? Below::alignment : kDefaultAlignment;
    static_assert(alignof(T) <= alignment, "Header: the heap below aligns to less than the record");

    using Through<Below>::Through;

    void* allocate(size_t size) {
      if (size > kMaxRequest - header_bytes) return nullptr;
      void* raw = this->next_.allocate(size + header_bytes);
      if (raw == nullptr) return nullptr;
      ::new (raw) T();
      return static_cast<char*>(raw) + header_bytes;
    }
    void deallocate(void* p, size_t size) {
      this->next_.deallocate(static_cast<char*>(p) - header_bytes, size + header_bytes);
    }
    static T& header(void* p) {
      return *std::launder(reinterpret_cast<T*>(static_cast<char*>(p) - header_bytes));
    }
    // What the header's owner keeps is not the size of what lies below.
    size_t size_of(void* p)
      requires SizedHeap<Below>
    {
      return this->next_.size_of(static_cast<char*>(p) - header_bytes) - header_bytes;
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      this->next_.deallocate(static_cast<char*>(p) - header_bytes);
    }
  };
};

struct SizeHeader {
  template <Heap Below>
  class On : public Through<typename Header<size_t>::template On<Below>> {
    using Base = Through<typename Header<size_t>::template On<Below>>;

   public:
    using Base::Base;

    void* allocate(size_t size) {
      void* p = this->next_.allocate(size);
      if (p != nullptr) this->next_.header(p) = size;
      return p;
    }
    void deallocate(void* p) { this->next_.deallocate(p, size_of(p)); }
    // The size that was asked for counts, not the caller's word for it.
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return this->next_.header(p); }
  };
};

}  // namespace strata::layers
