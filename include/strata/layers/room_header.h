// RoomHeader: a word in front of each block says how much the block can hold, which may be more
// than was asked for, so that the heap above frees and resizes without being told. 8 bytes over a
// skewed heap (Bump<n, 8>), else 16. The word carries a mark that a free block's link has not: a
// second free, or one of a pointer that is no block, is found by the compare that a free makes
// anyway. A block aligned to more than 16 has a word of another kind, which leads to the block's.
#pragma once

#include "strata/layers/heap.h"
#include "strata/layers/misuse.h"

namespace strata::layers {

struct RoomHeader {
  template <Heap Below>
  class On : public Through<Below> {
    static_assert(Below::skew == sizeof(size_t) || Below::alignment >= kDefaultAlignment,
                  "RoomHeader needs blocks at multiples of 16, or skewed by 8");

   public:
    static constexpr size_t header_bytes = Below::skew == 0 ? kDefaultAlignment : sizeof(size_t);
    static constexpr size_t alignment = kDefaultAlignment;
    static constexpr size_t skew = 0;

    using Through<Below>::Through;

    void* allocate(size_t size) {
      if (size > kMost) [[unlikely]]
        return nullptr;
      const size_t bytes = size + header_bytes;
      void* raw = this->next_.allocate(bytes);
      if (raw == nullptr) [[unlikely]]
        return nullptr;
      void* p = static_cast<char*>(raw) + header_bytes;
      Word(p) = (GoodSize(bytes) - header_bytes) | kBlock;
      return p;
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (align > kMost || size > kMost - align) return nullptr;
      char* p = static_cast<char*>(allocate(size + align - alignment));
      if (p == nullptr) return nullptr;
      const size_t over = (0 - reinterpret_cast<uintptr_t>(p)) & (align - 1);
      if (over != 0) Word(p + over) = over | kWithin;
      return p + over;
    }

    void deallocate(void* p) {
      const size_t word = Word(p);
      if ((word & kMark) != kBlock) [[unlikely]]
        return DeallocateOdd(p, word);
      this->next_.deallocate(static_cast<char*>(p) - header_bytes, (word & ~kMark) + header_bytes);
    }
    // The word counts, not the caller's.
    void deallocate(void* p, size_t) { deallocate(p); }

    size_t size_of(void* p) {
      const size_t word = Word(p);
      if ((word & kMark) == kBlock) return word & ~kMark;
      if ((word & kMark) != kWithin) return 0;
      const size_t over = word & ~kMark;
      return size_of(static_cast<char*>(p) - over) - over;
    }

   private:
    // Two values that no address has in its upper bits.
    static constexpr size_t kMark = size_t{0xffff} << 48;
    static constexpr size_t kBlock = size_t{0x5b10} << 48, kWithin = size_t{0x5b11} << 48;
    static constexpr size_t kMost = (size_t{1} << 47) - 1;

    static size_t& Word(void* p) { return static_cast<size_t*>(p)[-1]; }

    [[gnu::noinline]] void DeallocateOdd(void* p, size_t word) {
      if ((word & kMark) != kWithin)
        DieOfMisuse("", "free of a pointer that is no live block (freed before?)");
      Word(p) = 0;
      deallocate(static_cast<char*>(p) - (word & ~kMark));
    }
    static constexpr size_t GoodSize(size_t bytes) {
      if constexpr (requires { Below::good_size(bytes); }) {
        return Below::good_size(bytes);
      } else {
        return bytes;
      }
    }
  };
};

}  // namespace strata::layers
