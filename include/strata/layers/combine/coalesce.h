// Coalesce: a general heap that puts neighbouring free blocks together at once (boundary tags) and
// picks by a finder (TreeFit). The end of the newest region is the wilderness: used only when
// nothing else fits, so that the heap grows late and shrinks from its end. Regions of at least
// kRegion bytes come from the heap below; where it gives them one after the other (Growing), they
// become one.
#pragma once

#include "strata/layers/combine/first_fit.h"
#include "strata/layers/combine/tree_fit.h"
#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kRegion = 1 << 20, class Finder = TreeFit>
struct Coalesce {
  static_assert(kRegion % 4096 == 0 && kRegion != 0, "Coalesce: regions of whole pages");

  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= 16, "Coalesce needs a heap aligned to 16 bytes");
    static_assert(
        !internal::OneSize<Below>(),
        "Coalesce asks for regions of many sizes: put Fixed<bytes> or Bins between it and a "
        "FreeList or Inbox");
    using Block = TaggedBlock;

   public:
    static constexpr size_t alignment = Block::kUnit;
    static constexpr bool thread_safe = false;
    static constexpr bool boundary_tags = true;

    using Over<Below>::Over;
    ~On() { GiveBackAll(); }

    // Both out of line, so that what lies above them needs no stack on its own fast path.
    [[gnu::noinline]] void* allocate(size_t size) {
      if (size > kMaxRequest) return nullptr;
      const size_t bytes = Block::BytesFor(size);
      Block* b = finder_.Take(bytes);
      if (b == nullptr) b = FromWilderness(bytes);
      if (b == nullptr) return nullptr;
      Cut(b, bytes);
      return b->payload();
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (align > kMaxRequest / 2 || size > kMaxRequest - align - Block::kLeast) return nullptr;
      void* p = allocate(size + align + Block::kLeast);
      if (p == nullptr) return nullptr;
      size_t over = (0 - reinterpret_cast<uintptr_t>(p)) & (align - 1);
      if (over == 0) return p;
      if (over < Block::kLeast) over += align;
      Block* front = Block::Of(p);
      Block* b = front->At(static_cast<ptrdiff_t>(over));
      b->SetInUse(front->size() - over, Block::Neighbour::kInUse);
      front->SetInUse(over, front->previous_state());
      deallocate(front->payload());
      Trim(b, Block::BytesFor(size));
      return b->payload();
    }

    [[gnu::noinline]] void deallocate(void* p) {
      Block* b = Block::Of(p);
      if (!b->in_use()) [[unlikely]]
        DieOfDeadBlock();
      size_t bytes = b->size();
      if (!b->previous_in_use()) {
        Block* before = b->Before();
        Unkeep(before);
        bytes += before->size();
        b = before;
      }
      Block* after = b->At(static_cast<ptrdiff_t>(bytes));
      if (!after->in_use()) {
        Unkeep(after);
        bytes += after->size();
      }
      b->SetFree(bytes);
      if (!b->After()->is_end() || !GaveBack(b)) Keep(b);
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return Block::Of(p)->size() - Block::kTag; }

    // The block at p becomes `size` bytes long where it lies; false leaves it as it was.
    bool resize(void* p, size_t size) {
      if (size > kMaxRequest) return false;
      Block* b = Block::Of(p);
      const size_t bytes = Block::BytesFor(size);
      if (bytes > b->size()) {
        Block* after = b->After();
        if (after->in_use() || b->size() + after->size() < bytes) return false;
        Unkeep(after);
        b->SetInUse(b->size() + after->size(), b->previous_state());
      }
      Trim(b, bytes);
      return true;
    }

    void forget() {
      Reset();
      Over<Below>::forget();
    }
    void clear() {
      if constexpr (ClearableHeap<Below>) {  // it may take nothing back one by one
        this->next_.clear();
      } else {
        GiveBackAll();
      }
      Reset();
    }
    size_t held() const { return held_; }  // bytes taken from below
    // How much may lie free at the end before it goes back; twice as much is a reason to.
    void set_slack(size_t bytes) { slack_ = bytes < 2 * kRegion ? 2 * kRegion : bytes; }

   private:
    // At the start of each region. Its blocks follow, then an end block, which leads back here: who
    // frees the last block of one of many regions must not walk along them all.
    struct Region {
      Region* next;
      Region* previous;
      size_t bytes;
      size_t first_tag;
    };
    static_assert(sizeof(Region) == 32);
    static constexpr size_t kOverhead = sizeof(Region) + Block::kUnit;

    static Block* FirstOf(Region* r) { return reinterpret_cast<Block*>(r + 1); }
    static Region* RegionOf(const Block* end) { return reinterpret_cast<Region*>(end->next); }
    static char* PastOf(Region* r) { return reinterpret_cast<char*>(r) + r->bytes; }

    void Reset() {
      regions_ = nullptr;
      wilderness_ = nullptr;
      newest_end_ = nullptr;
      held_ = 0;
      finder_.Clear();
    }

    void Keep(Block* b) {
      if (wilderness_ == nullptr && b->After() == newest_end_) {
        wilderness_ = b;
      } else {
        finder_.Add(b);
      }
    }
    void Unkeep(Block* b) {
      if (b == wilderness_) {
        wilderness_ = nullptr;
      } else {
        finder_.Remove(b);
      }
    }

    // b is kept nowhere; its neighbours are in use.
    void Cut(Block* b, size_t bytes) {
      const size_t whole = b->size();
      if (whole - bytes < Block::kLeast) return b->SetInUse(whole, Block::Neighbour::kInUse);
      Block* rest = b->At(static_cast<ptrdiff_t>(bytes));
      rest->SetFree(whole - bytes);
      b->SetInUse(bytes, Block::Neighbour::kInUse);
      Keep(rest);
    }

    // b is in use; what it has beyond `bytes` becomes free.
    void Trim(Block* b, size_t bytes) {
      const size_t over = b->size() - bytes;
      if (over < Block::kLeast) return;
      Block* rest = b->At(static_cast<ptrdiff_t>(bytes));
      rest->SetInUse(over, Block::Neighbour::kInUse);
      b->SetInUse(bytes, b->previous_state());
      deallocate(rest->payload());
    }

    Block* FromWilderness(size_t bytes) {
      if ((wilderness_ == nullptr || wilderness_->size() < bytes) && !Grow(bytes)) return nullptr;
      Block* b = wilderness_;
      wilderness_ = nullptr;
      return b;
    }

    // A region whose end has a wilderness of at least `bytes`.
    bool Grow(size_t bytes) {
      const size_t wanted = RoundUp(bytes + kOverhead, kRegion);
      void* raw = this->next_.allocate(wanted);
      if (raw == nullptr) return false;
      held_ += wanted;
      if constexpr (requires { requires bool(Below::divisible); }) {
        if (regions_ != nullptr && raw == PastOf(regions_)) {
          Extend(wanted);
          return true;
        }
      }
      if (wilderness_ != nullptr) {  // an older region's end is a block like any other
        finder_.Add(wilderness_);
        wilderness_ = nullptr;
      }
      auto* r = ::new (raw) Region{regions_, nullptr, wanted, 0};
      if (regions_ != nullptr) regions_->previous = r;
      regions_ = r;
      SetNewestEnd();
      wilderness_ = FirstOf(r);
      wilderness_->SetFree(wanted - kOverhead);
      return true;
    }

    // The newest region goes on where it ended: its end block becomes part of the wilderness.
    void Extend(size_t more) {
      Block* b = newest_end_;
      size_t bytes = more;
      if (!b->previous_in_use()) {
        b = b->Before();
        Unkeep(b);
        bytes += b->size();
      }
      regions_->bytes += more;
      SetNewestEnd();
      b->SetFree(bytes);
      wilderness_ = b;
    }

    // The block before it is free, or will be in a moment.
    void SetNewestEnd() {
      newest_end_ = reinterpret_cast<Block*>(PastOf(regions_) - Block::kUnit);
      newest_end_->SetEnd(Block::Neighbour::kFree);
      newest_end_->next = reinterpret_cast<Block*>(regions_);
    }

    // b is free and kept nowhere. All of a region that is not the newest goes back whole; of the
    // newest's end, what is beyond kRegion, where the heap below can take a tail.
    bool GaveBack(Block* b) {
      if (b->After() == newest_end_) return Shrink(b);
      Region* r = RegionOf(b->After());
      if (b != FirstOf(r)) return false;
      r->previous->next = r->next;  // there is a newer one
      if (r->next != nullptr) r->next->previous = r->previous;
      held_ -= r->bytes;
      this->next_.deallocate(r, r->bytes);
      return true;
    }
    bool Shrink(Block* b) {
      if constexpr (requires(Below& n) { n.shrink(b, size_t{}); }) {
        if (b->size() < 2 * slack_) return false;
        const size_t bytes = (b->size() - slack_) / kRegion * kRegion;
        regions_->bytes -= bytes;
        held_ -= bytes;
        SetNewestEnd();
        b->SetFree(b->size() - bytes);
        this->next_.shrink(PastOf(regions_), bytes);
        wilderness_ = b;
        return true;
      }
      return false;
    }

    void GiveBackAll() {
      for (Region* r = regions_; r != nullptr;) {
        Region* next = r->next;
        this->next_.deallocate(r, r->bytes);
        r = next;
      }
    }

    Region* regions_ = nullptr;
    Block* wilderness_ = nullptr;  // the free block at the newest region's end; kept by no finder
    Block* newest_end_ = nullptr;
    size_t held_ = 0;
    size_t slack_ = 2 * kRegion;
    Finder finder_;
  };
};

}  // namespace strata::layers
