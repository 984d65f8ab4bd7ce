// Count: how many blocks and bytes (as asked) are out, have ever been, and were at most; how often
// the heap below said no. Splice it in anywhere; below a Locked, or for one thread.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

struct Counts {
  size_t allocations = 0;
  size_t deallocations = 0;
  size_t failures = 0;
  size_t bytes = 0;  // out now; exact where the caller passes sizes, or the heap below knows them
  size_t peak_bytes = 0;
  size_t blocks() const { return allocations - deallocations; }
};

struct Count {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;

    using Through<Below>::Through;

    void* allocate(size_t size) {
      void* p = this->next_.allocate(size);
      if (p == nullptr) {
        ++counts_.failures;
        return nullptr;
      }
      ++counts_.allocations;
      counts_.bytes += SizeOf(p, size);
      if (counts_.bytes > counts_.peak_bytes) counts_.peak_bytes = counts_.bytes;
      return p;
    }
    void deallocate(void* p, size_t size) {
      Note(SizeOf(p, size));
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      Note(this->next_.size_of(p));
      this->next_.deallocate(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      counts_.deallocations = counts_.allocations;
      counts_.bytes = 0;
      this->next_.clear();
    }
    const Counts& counts() const { return counts_; }

   private:
    void Note(size_t size) {
      ++counts_.deallocations;
      counts_.bytes -= size;
    }
    size_t SizeOf(void* p, size_t size) {
      if constexpr (SizedHeap<Below>) {
        return this->next_.size_of(p);
      } else {
        (void)p;
        return size;
      }
    }

    Counts counts_;
  };
};

}  // namespace strata::layers
