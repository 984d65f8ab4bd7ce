// Capped: no more than so many bytes are out at once; a request that would be more gets null, or a
// function is asked, which may raise the cap or free blocks. Bytes are those asked for where every
// free is told them, and what the block holds over a heap that knows sizes. Below a Locked, or for
// one thread; below a Locked the function must not use the heap.
#pragma once

#include "strata/layers/detail/cap.h"
#include "strata/layers/heap.h"

namespace strata::layers {

// 0: none, until set_cap().
template <size_t kBytes = 0>
struct Capped {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;
    static constexpr bool blocks_stand_alone = false;

    using Through<Below>::Through;

    void* allocate(size_t size) {
      return Asking(size, [&] { return Took(this->next_.allocate(size), size); });
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return Asking(size, [&] { return Took(this->next_.allocate(size, align), size); });
    }
    void deallocate(void* p, size_t size) {
      out_ -= SizeOf(p, size);
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      out_ -= this->next_.size_of(p);
      this->next_.deallocate(p);
    }
    // Without a question: who can't resize allocates, and then there is one.
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      const size_t before = this->next_.size_of(p);
      if (!Grows(before, size) || !this->next_.resize(p, size)) return false;
      // It may hold more than was asked for, and be too much for that. Then it is put back, though
      // perhaps not all the way: a heap that rounds does so again.
      size_t bytes = this->next_.size_of(p);
      const bool fits = bytes <= before || cap_.Allows(out_ - before + bytes);
      if (!fits && this->next_.resize(p, before)) bytes = this->next_.size_of(p);
      out_ += bytes - before;
      return fits || bytes >= size;
    }
    // Under a cap no block grows by this: nobody knows beforehand what it would hold, and one that
    // has moved can't be put back. Who gets null allocates and copies.
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      const size_t before = this->next_.size_of(p);
      if (size > kMaxRequest || (size > before && cap_.bytes() != 0)) return nullptr;
      void* to = this->next_.remap(p, size);
      if (to != nullptr) out_ += this->next_.size_of(to) - before;
      return to;
    }
    void clear()
      requires ClearableHeap<Below>
    {
      out_ = 0;
      this->next_.clear();
    }
    void forget() {
      out_ = 0;
      Through<Below>::forget();
    }

    void set_cap(size_t bytes, CapFunction reached = nullptr, void* context = nullptr) {
      cap_ = Cap(bytes, reached, context);
    }
    size_t cap() const { return cap_.bytes(); }
    size_t out() const { return out_; }

   private:
    template <class F>
    void* Asking(size_t size, F take) {
      if (size > kMaxRequest) return nullptr;
      return cap_.Asking(out_, refused_, [&]() -> void* {
        refused_ = cap_.Allows(out_ + size) ? 0 : size;
        return refused_ == 0 ? take() : nullptr;
      });
    }
    // A block may hold more than was asked for, and be too much for that.
    void* Took(void* p, size_t size) {
      if (p == nullptr) return nullptr;
      const size_t bytes = SizeOf(p, size);
      if (cap_.Allows(out_ + bytes)) {
        out_ += bytes;
        return p;
      }
      this->next_.deallocate(p, size);
      refused_ = bytes;
      return nullptr;
    }
    bool Grows(size_t before, size_t size) const {
      return size <= before || (size <= kMaxRequest && cap_.Allows(out_ - before + size));
    }
    size_t SizeOf(void* p, size_t size) {
      if constexpr (SizedHeap<Below>) {
        return this->next_.size_of(p);
      } else {
        (void)p;
        return size;
      }
    }

    Cap cap_{kBytes, nullptr, nullptr};
    size_t out_ = 0;
    size_t refused_ = 0;  // what the cap kept the last request from taking
  };
};

}  // namespace strata::layers
