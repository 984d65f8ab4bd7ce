// ClassHeader: a word in front of each block names its size class, so that the heap above frees and
// resizes without being told. Over Bins; 8 bytes where its blocks are skewed (Bump<n, 8>), else 16.
// The word carries a mark that a free block's link has not: a second free, or one of a pointer that
// is no block, is found by the compare that a free makes anyway. A block aligned to more than 16
// has a word of another kind, which leads to the block's. What is larger than the last class comes
// from the heap below the bins, with its size in the word. When that has no more, a kept block of a
// larger class serves.
#pragma once

#include "strata/layers/combine/classes.h"
#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

struct ClassHeader {
  template <Heap Below>
  class On : public Over<Below> {
    using Classes = typename internal::ClassesOfHeap<Below>::type;
    static constexpr bool kOverBins = requires(Below& b, size_t c) { b.allocate_kept_of_class(c); };
    static_assert(kOverBins, "ClassHeader needs Bins of free lists below it");
    static_assert(!kOverBins || Below::skew == sizeof(size_t) ||
                      Below::alignment >= kDefaultAlignment,
                  "ClassHeader needs blocks at multiples of 16, or skewed by 8");

   public:
    static constexpr size_t header_bytes = Below::skew == 0 ? kDefaultAlignment : sizeof(size_t);
    static constexpr size_t alignment = kDefaultAlignment;
    static constexpr size_t skew = 0;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Over<Below>::Over;

    void* allocate(size_t size) {
      if (void* p = allocate_kept(size)) [[likely]]
        return p;
      return AllocateSlow(size);
    }
    void* allocate_kept(size_t size) {
      size = WithRoom(size);
      if (size > kMost) [[unlikely]]
        return nullptr;
      const size_t c = ClassOf(size);
      void* raw = this->next_.allocate_kept_of_class(c);
      return raw == nullptr ? nullptr : Begin(raw, c + kBlock);
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (align > kMostLarge || size > kMostLarge - align) return nullptr;
      char* p = static_cast<char*>(allocate(AtLeastAByte(size) + align - alignment));
      if (p == nullptr) return nullptr;
      const size_t over = (0 - reinterpret_cast<uintptr_t>(p)) & (align - 1);
      if (over != 0) Word(p + over) = over | kWithin;
      return p + over;
    }

    void deallocate(void* p) {
      const size_t c = Word(p) - kBlock;
      if (c >= Classes::count) [[unlikely]]
        return DeallocateOdd(p);
      // Of a word that lies behind the free block's link, no mark may stay.
      if constexpr (header_bytes > sizeof(size_t)) Word(p) = 0;
      this->next_.deallocate_of_class(static_cast<char*>(p) - header_bytes, c);
    }
    // The word counts, not the caller's.
    void deallocate(void* p, size_t) { deallocate(p); }
    void clear()
      requires ClearableHeap<Below>
    {
      this->next_.clear();
    }

    // 0 for what is no block.
    size_t size_of(void* p) {
      const size_t word = Word(p);
      if (word - kBlock < Classes::count) return Classes::size(word - kBlock) - header_bytes;
      if ((word & kMark) == kLarge) return (word & ~kMark) - header_bytes;
      if ((word & kMark) != kWithin) return 0;
      const size_t over = word & ~kMark;
      return size_of(static_cast<char*>(p) - over) - over;
    }

   private:
    // Values that no address has in its upper bits.
    static constexpr size_t kMark = size_t{0xffff} << 48;
    static constexpr size_t kBlock = size_t{0x5b10} << 48, kWithin = size_t{0x5b11} << 48;
    static constexpr size_t kLarge = size_t{0x5b12} << 48;  // with the bytes of the block below
    static constexpr size_t kMost = Classes::largest - header_bytes;
    static constexpr size_t kMostLarge = size_t{1} << 47;
    static_assert(Classes::largest <= kMostLarge);
    static_assert(Classes::largest >= header_bytes,
                  "ClassHeader: the last class has no room for a header");

    static size_t& Word(void* p) { return static_cast<size_t*>(p)[-1]; }
    static void* Begin(void* raw, size_t word) {
      void* p = static_cast<char*>(raw) + header_bytes;
      Word(p) = word;
      return p;
    }

    // A block of no bytes begins inside of its class's as well, which it does by itself unless one
    // class is just as large as a header.
    static constexpr size_t WithRoom(size_t size) {
      return Classes::size(Classes::of(header_bytes)) == header_bytes ? AtLeastAByte(size) : size;
    }
    static constexpr size_t ClassOf(size_t size) { return Classes::of(size + header_bytes); }
    [[gnu::noinline]] void* AllocateSlow(size_t size) {
      size = WithRoom(size);
      if (size > kMost) return AllocateLarge(size);
      const size_t c = ClassOf(size);
      if (void* raw = this->next_.allocate(Classes::size(c))) return Begin(raw, c + kBlock);
      // There is no more. A kept block of a larger class serves, and stays of that class.
      for (size_t larger = c + 1; larger < Classes::count; ++larger) {
        if (void* raw = this->next_.allocate_kept_of_class(larger))
          return Begin(raw, larger + kBlock);
      }
      return nullptr;
    }
    void* AllocateLarge(size_t size) {
      if (size > kMostLarge) return nullptr;
      const size_t bytes = size + header_bytes;
      void* raw = this->next_.allocate(bytes);
      return raw == nullptr ? nullptr : Begin(raw, bytes + kLarge);
    }
    [[gnu::noinline]] void DeallocateOdd(void* p) {
      const size_t word = Word(p);
      if ((word & kMark) == kLarge) {
        Word(p) = 0;
        return this->next_.deallocate(static_cast<char*>(p) - header_bytes, word & ~kMark);
      }
      if ((word & kMark) != kWithin) DieOfDeadBlock();
      Word(p) = 0;
      deallocate(static_cast<char*>(p) - (word & ~kMark));
    }
  };
};

}  // namespace strata::layers
