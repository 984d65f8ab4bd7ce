// DeferredPop: the objects of a stack may be freed in any order. The newest is popped at once; one
// that is freed before its time is marked, and goes when all that lie above it are gone. Over
// Obstack; 16 bytes in front of each block: a link to the one below it, and a tag with its size.
#pragma once

#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

// Cheap where lifetimes nest. Where they do not, one long-lived object keeps all that lies below
// it: what is held is bounded by what was ever allocated, and by nothing else. The newest block is
// resized where it lies.
struct DeferredPop {
  template <Heap Below>
  class On : public Over<Below> {
    using Block = TaggedBlock;
    static_assert(
        requires(Below& b, void* mark) { b.release_to(mark), b.mark(), b.room(); },
        "DeferredPop needs a stack of objects, such as Obstack");
    static_assert(Below::alignment >= Block::kUnit, "DeferredPop needs a heap aligned to 16 bytes");

   public:
    static constexpr size_t alignment = Block::kUnit;
    static constexpr bool thread_safe = false;
    static constexpr bool boundary_tags = true;
    static constexpr size_t header_bytes = 2 * Block::kTag;

    using Over<Below>::Over;

    void* allocate(size_t size) {
      if (size > kMaxRequest - header_bytes) return nullptr;
      const size_t bytes = BytesFor(size);
      void* raw = this->next_.allocate(bytes);
      return raw == nullptr ? nullptr : Push(static_cast<char*>(raw) + header_bytes, bytes);
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (align > kMaxRequest / 2 || size > kMaxRequest - header_bytes - align) return nullptr;
      void* raw = this->next_.allocate(BytesFor(size) + align);
      if (raw == nullptr) return nullptr;
      const uintptr_t at = RoundUp(reinterpret_cast<uintptr_t>(raw) + header_bytes, align);
      void* p = Push(reinterpret_cast<void*>(at), BytesFor(size));
      this->next_.release_to(EndOf(newest_));
      return p;
    }

    void deallocate(void* p) {
      Block* b = Live(p);
      b->SetGone();
      if (b == newest_) Pop();
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return Block::Of(p)->size() - header_bytes; }

    // The block at p becomes `size` bytes long where it lies; false leaves it as it was. One with
    // others above it keeps the room that it has.
    bool resize(void* p, size_t size) {
      if (size > kMaxRequest - header_bytes) return false;
      Block* b = Live(p);
      const size_t bytes = BytesFor(size), before = b->size();
      if (b != newest_) return bytes <= before;
      if (bytes > before) {
        if (bytes - before > this->next_.room()) return false;
        this->next_.allocate(bytes - before);
      }
      b->SetNewest(bytes);
      if (bytes < before) this->next_.release_to(EndOf(b));
      return true;
    }

    void forget() {
      newest_ = nullptr;
      Over<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      newest_ = nullptr;
      this->next_.clear();
    }

   private:
    // With the header.
    static constexpr size_t BytesFor(size_t size) {
      return RoundUpBlock(size, Block::kUnit) + header_bytes;
    }
    static Block*& LinkOf(Block* b) { return reinterpret_cast<Block**>(b)[-2]; }
    static void* EndOf(Block* b) { return b->At(static_cast<ptrdiff_t>(b->size() - header_bytes)); }
    static Block* Live(void* p) {
      Block* b = Block::Of(p);
      if (!b->in_use()) [[unlikely]]
        DieOfDeadBlock();
      return b;
    }

    void* Push(void* p, size_t bytes) {
      Block* b = Block::Of(p);
      LinkOf(b) = newest_;
      b->SetNewest(bytes);
      newest_ = b;
      return p;
    }
    // The newest block, which is gone, and those right below it that went before.
    void Pop() {
      do {
        newest_ = LinkOf(newest_);
      } while (newest_ != nullptr && !newest_->in_use());
      this->next_.release_to(newest_ == nullptr ? nullptr : EndOf(newest_));
    }

    Block* newest_ = nullptr;  // in use; it ends where the next one will begin
  };
};

}  // namespace strata::layers
