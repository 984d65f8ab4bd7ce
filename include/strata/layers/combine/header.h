// SizeHeader: writes the size in front of each block, so that the heap above it frees without being
// told, and aligns. 16 bytes a block. Header<T> puts a record of the user's there instead. Behind
// either comes a byte at least: a block of none would begin where the next one's header does, or
// where the heap below ends, which would not take it for its own.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// header_bytes in front of each block; header(p) is of type T.
template <class T>
struct Header {
  template <Heap Below>
  class On : public Over<Below> {
    static_assert(std::is_trivially_destructible_v<T>, "Header: a record without a destructor");

   public:
    static constexpr size_t header_bytes = RoundUp(sizeof(T), kDefaultAlignment);
    static constexpr size_t alignment =
        Below::alignment < kDefaultAlignment ? Below::alignment : kDefaultAlignment;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();
    static_assert(alignof(T) <= alignment, "Header: the heap below aligns to less than the record");

    using Over<Below>::Over;

    void* allocate(size_t size) {
      if (size > kMaxRequest - header_bytes) return nullptr;
      return Begin(this->next_.allocate(Whole(size)));
    }
    void deallocate(void* p, size_t size) { this->next_.deallocate(Raw(p), Whole(size)); }
    void drain(size_t size) { Over<Below>::drain(Whole(size)); }
    static T& header(void* p) { return *std::launder(static_cast<T*>(Raw(p))); }
    // What the header's owner keeps is not the size of what lies below.
    size_t size_of(void* p)
      requires SizedHeap<Below>
    {
      return this->next_.size_of(Raw(p)) - header_bytes;
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      this->next_.deallocate(Raw(p));
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      return size <= kMaxRequest - header_bytes && this->next_.resize(Raw(p), Whole(size));
    }
    // The record moves with the block.
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      if (size > kMaxRequest - header_bytes) return nullptr;
      void* raw = this->next_.remap(Raw(p), Whole(size));
      return raw == nullptr ? nullptr : static_cast<char*>(raw) + header_bytes;
    }
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Below>
    {
      return this->next_.reads_zero(Raw(p));
    }
    void clear()
      requires ClearableHeap<Below>
    {
      this->next_.clear();
    }

   private:
    static constexpr size_t Whole(size_t size) { return AtLeastAByte(size) + header_bytes; }
    static void* Raw(void* p) { return static_cast<char*>(p) - header_bytes; }
    static void* Begin(void* raw) {
      if (raw == nullptr) return nullptr;
      ::new (raw) T();
      return static_cast<char*>(raw) + header_bytes;
    }
  };
};

struct SizeHeader {
  template <Heap Below>
  class On : public Over<Below> {
    // The block of the heap below: its size, and how far behind its start the caller's lies.
    struct Whole {
      size_t size;
      size_t offset;
    };
    static constexpr size_t kHeader = sizeof(Whole);

   public:
    static constexpr size_t alignment =
        Below::alignment < kDefaultAlignment ? Below::alignment : kDefaultAlignment;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();
    static_assert(alignof(Whole) <= alignment, "SizeHeader needs a heap aligned to 8 bytes");

    using Over<Below>::Over;

    void* allocate(size_t size) {
      const size_t bytes = AtLeastAByte(size) + kHeader;
      // What is too large is negative now, or has wrapped.
      if (static_cast<ptrdiff_t>(bytes) <= static_cast<ptrdiff_t>(kHeader)) return nullptr;
      auto* whole = static_cast<Whole*>(this->next_.allocate(bytes));
      if (whole == nullptr) return nullptr;
      ::new (whole) Whole{bytes, kHeader};
      return whole + 1;
    }
    // It takes more from below than other requests of the size do.
    void* allocate(size_t size, size_t align)
      requires(!internal::OneSize<Below>())
    {
      if (align <= alignment) return allocate(size);
      if (align > kMaxRequest / 2 || size > kMaxRequest - kHeader - align) return nullptr;
      return Take(AtLeastAByte(size) + kHeader + align - alignment, align);
    }
    void deallocate(void* p) {
      const Whole whole = WholeOf(p);
      this->next_.deallocate(static_cast<char*>(p) - whole.offset, whole.size);
    }
    // The size that was asked for counts, not the caller's word for it.
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return WholeOf(p).size - WholeOf(p).offset; }
    void drain(size_t size) { Over<Below>::drain(AtLeastAByte(size) + kHeader); }
    void clear()
      requires ClearableHeap<Below>
    {
      this->next_.clear();
    }

   private:
    static Whole& WholeOf(void* p) { return *(static_cast<Whole*>(p) - 1); }

    void* Take(size_t bytes, size_t align) {
      void* raw = this->next_.allocate(bytes);
      if (raw == nullptr) return nullptr;
      const auto at = reinterpret_cast<uintptr_t>(raw);
      const size_t offset = RoundUp(at + kHeader, align) - at;
      void* p = static_cast<char*>(raw) + offset;
      ::new (static_cast<Whole*>(p) - 1) Whole{bytes, offset};
      return p;
    }
  };
};

}  // namespace strata::layers
