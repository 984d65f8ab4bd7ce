// Count: how many blocks and bytes are out, have ever been, and were at most; how often the heap
// below said no. Bytes are those asked for where every free is told them, and what the block holds
// over a heap that knows sizes (SizedHeap): a free may then name none. A block that is resized or
// remapped stays one block. Splice it in anywhere; below a Locked, or for one thread.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

struct Counts {
  size_t allocations = 0;
  size_t deallocations = 0;
  size_t failures = 0;
  size_t bytes = 0;  // out now; as asked, or size_of() where the heap below has it
  size_t peak_bytes = 0;
  size_t blocks() const { return allocations - deallocations; }
};

struct Count {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;
    static constexpr bool blocks_stand_alone = false;

    using Through<Below>::Through;

    void* allocate(size_t size) { return NoteBlock(this->next_.allocate(size), size); }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return NoteBlock(this->next_.allocate(size, align), size);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      const size_t before = this->next_.size_of(p);
      if (!this->next_.resize(p, size)) return false;
      NoteBytes(before, this->next_.size_of(p));
      return true;
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      const size_t before = this->next_.size_of(p);
      void* to = this->next_.remap(p, size);
      if (to != nullptr) NoteBytes(before, this->next_.size_of(to));
      return to;
    }
    void deallocate(void* p, size_t size) {
      NoteFree(SizeOf(p, size));
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      NoteFree(this->next_.size_of(p));
      this->next_.deallocate(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      NoteAllGone();
      this->next_.clear();
    }
    void forget() {
      NoteAllGone();
      Through<Below>::forget();
    }
    const Counts& counts() const { return counts_; }

   private:
    void* NoteBlock(void* p, size_t size) {
      if (p == nullptr) {
        ++counts_.failures;
        return nullptr;
      }
      ++counts_.allocations;
      NoteBytes(0, SizeOf(p, size));
      return p;
    }
    void NoteBytes(size_t before, size_t after) {
      counts_.bytes += after - before;
      if (counts_.bytes > counts_.peak_bytes) counts_.peak_bytes = counts_.bytes;
    }
    void NoteFree(size_t size) {
      ++counts_.deallocations;
      counts_.bytes -= size;
    }
    void NoteAllGone() {
      counts_.deallocations = counts_.allocations;
      counts_.bytes = 0;
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
