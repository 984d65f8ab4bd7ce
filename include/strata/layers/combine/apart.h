// Apart: requests of at least kFirstLimit bytes get memory of their own from a second source
// (Mmap), and it goes back as soon as they are freed (Lea's mmap threshold). The heap below must
// tag its blocks (Coalesce): the tag of one that lies apart says so, which costs a free one test.
// Such a block is resized by its source, where that can move pages instead of bytes (Mmap::remap).
// When the source has no more (there is a limit to the number of mappings), the heap below serves.
#pragma once

#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

// The limit moves, as in glibc's descendant of Lea's: a block that lay apart and is freed shows
// that such sizes come and go, and a mapping for each costs more than it saves. From then on blocks
// of its size come from below, up to kMostLimit, and the heap below keeps twice as much at its end.
template <size_t kFirstLimit, class Source, size_t kMostLimit = 32 << 20>
struct Apart {
  static_assert(Heap<Source>, "Apart: the second parameter must be a whole heap, such as Mmap");

  template <Heap Below>
  class On : public Over<Below> {
    using Block = TaggedBlock;
    static constexpr size_t kPage = 4096;
    static_assert(
        requires { requires SizedHeap<Below> && Below::boundary_tags; },
        "Apart needs a heap with boundary tags, such as Coalesce");
    static_assert(Source::alignment >= kPage, "Apart needs a source of whole pages, such as Mmap");

   public:
    static constexpr size_t alignment = Below::alignment;
    using Over<Below>::Over;

    void* allocate(size_t size) {
      if (size >= limit_) {
        if (void* p = AllocateApart(size, alignment)) return p;
      }
      return this->next_.allocate(size);
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      if (size >= limit_) {
        if (void* p = AllocateApart(size, align)) return p;
      }
      return this->next_.allocate(size, align);
    }
    // Whether the block at p, not written to yet, reads as zero: its source knows.
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Source>
    {
      Block* b = Block::Of(p);
      return b->apart() && source_.reads_zero(StartOf(b));
    }
    void deallocate(void* p) {
      Block* b = Block::Of(p);
      if (!b->apart()) [[likely]]
        return this->next_.deallocate(p);
      if (!b->in_use()) DieOfDeadBlock();
      GiveBackApart(StartOf(b), LengthOf(b));
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) {
      const Block* b = Block::Of(p);
      return b->apart() ? b->size() - Block::kTag : this->next_.size_of(p);
    }
    bool owns(const void* p) const
      requires OwningHeap<Source> && OwningHeap<Below>
    {
      return source_.owns(p) || this->next_.owns(p);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      if (!Block::Of(p)->apart()) return this->next_.resize(p, size);
      return size <= kMaxRequest && LengthFor(OffsetOf(p) + size) == LengthOf(Block::Of(p));
    }
    void* remap(void* p, size_t size) {
      if (!Block::Of(p)->apart() || size < limit_ || size > kMaxRequest) return nullptr;
      if constexpr (requires { source_.remap(p, size, size); }) {
        Block* b = Block::Of(p);
        const size_t offset = OffsetOf(p), length = LengthFor(offset + size);
        void* raw = source_.remap(StartOf(b), LengthOf(b), length);
        return raw == nullptr ? nullptr : Tag(raw, offset, length);
      }
      return nullptr;
    }

   private:
    static constexpr size_t kHeader = 2 * Block::kTag;  // the offset from the start, and the tag

    static char* StartOf(Block* b) { return reinterpret_cast<char*>(b) - b->apart_offset(); }
    static size_t OffsetOf(void* p) { return Block::Of(p)->apart_offset(); }
    // A tag's bytes more than the block needs, because size_of() takes them off, as Coalesce does:
    // so the two need not be told apart there.
    static constexpr size_t LengthFor(size_t end) { return RoundUp(end + Block::kTag, kPage); }
    static size_t LengthOf(Block* b) { return b->apart_offset() + b->size(); }
    static void* Tag(void* raw, size_t offset, size_t length) {
      Block* b = Block::Of(static_cast<char*>(raw) + offset);
      b->SetApart(length - offset, offset);
      return b->payload();
    }

    [[gnu::noinline]] void* AllocateApart(size_t size, size_t align) {
      if (size > kMaxRequest - 2 * kPage || align > kMaxRequest - 2 * kPage - size) return nullptr;
      const size_t length = LengthFor(size + (align > kHeader ? align : 0) + kHeader);
      auto* raw = static_cast<char*>(source_.allocate(length));
      if (raw == nullptr) return nullptr;
      const uintptr_t at = RoundUp(reinterpret_cast<uintptr_t>(raw) + kHeader, align);
      return Tag(raw, at - reinterpret_cast<uintptr_t>(raw), length);
    }

    [[gnu::noinline]] void GiveBackApart(char* start, size_t length) {
      if (length > limit_ && length <= kMostLimit) {
        limit_ = length;
        if constexpr (requires { this->next_.set_slack(length); })
          this->next_.set_slack(2 * length);
      }
      source_.deallocate(start, length);
    }

    size_t limit_ = kFirstLimit;
    [[no_unique_address]] Source source_;
  };
};

}  // namespace strata::layers
