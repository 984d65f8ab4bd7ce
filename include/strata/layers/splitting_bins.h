// SplittingBins: free lists by size class where a class that is empty cuts a block of the next
// larger class that is not, and keeps the rest in the bin it fits. Nothing is put together again;
// see Coalesce for that. The size of each block must be a multiple of 16.
#pragma once

#include "strata/layers/classes.h"
#include "strata/layers/heap.h"

namespace strata::layers {

template <class ClassesOfBins>
struct SplittingBins {
  static_assert(SizeClasses<ClassesOfBins>,
                "SplittingBins needs size classes, such as Steps<16, 1024>");

  template <Heap Below>
  class On : public Over<Below> {
    using Classes = internal::ClassesOr<ClassesOfBins>;
    static_assert(Classes::count <= 64, "SplittingBins: at most 64 classes");

    static constexpr bool WholeUnits() {
      for (size_t c = 0; c < Classes::count; ++c)
        if (Classes::size(c) % kDefaultAlignment != 0) return false;
      return true;
    }
    static_assert(WholeUnits(),
                  "SplittingBins: sizes must be multiples of 16, as what is cut off is");

   public:
    static constexpr size_t alignment =
        Below::alignment < kDefaultAlignment ? Below::alignment : kDefaultAlignment;
    static constexpr bool thread_safe = false;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Over<Below>::Over;

    void* allocate(size_t size) {
      if (size > Classes::largest) return this->next_.allocate(size);
      const size_t c = Classes::of(size), bytes = Classes::size(c);
      const uint64_t usable = nonempty_ & (~uint64_t{0} << c);
      if (usable == 0) return this->next_.allocate(bytes);
      const auto from = static_cast<size_t>(std::countr_zero(usable));
      Block* b = Pop(from);
      Keep(reinterpret_cast<char*>(b) + bytes, Classes::size(from) - bytes);
      return b;
    }
    void deallocate(void* p, size_t size) {
      if (size > Classes::largest) return this->next_.deallocate(p, size);
      Push(Classes::of(size), p);
    }
    void forget() {
      for (Block*& b : bins_) b = nullptr;
      nonempty_ = 0;
      Over<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      for (Block*& b : bins_) b = nullptr;
      nonempty_ = 0;
      this->next_.clear();
    }

   private:
    struct Block {
      Block* next;
    };

    void Push(size_t c, void* p) {
      bins_[c] = ::new (p) Block{bins_[c]};
      nonempty_ |= uint64_t{1} << c;
    }
    Block* Pop(size_t c) {
      Block* b = bins_[c];
      bins_[c] = b->next;
      if (b->next == nullptr) nonempty_ &= ~(uint64_t{1} << c);
      return b;
    }
    // Cuts the rest into blocks of whole classes, largest first; what is less than the least class
    // is lost.
    void Keep(char* at, size_t bytes) {
      while (bytes >= Classes::size(0)) {
        size_t c = Classes::of(bytes);
        if (Classes::size(c) > bytes) --c;
        Push(c, at);
        at += Classes::size(c);
        bytes -= Classes::size(c);
      }
    }

    uint64_t nonempty_ = 0;
    Block* bins_[Classes::count] = {};
  };
};

}  // namespace strata::layers
