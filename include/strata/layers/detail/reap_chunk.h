// What a Reap takes from the heap below: memory with a header that links it to the reap's other
// chunks and names the reap's owner, so that an address leads to the owner by way of whoever knows
// where the heap below puts its blocks.
#pragma once

#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/heap.h"

namespace strata::layers {

struct alignas(16) ReapChunk {
  ReapChunk* next;
  ReapChunk* previous;
  size_t bytes;  // with this header
  void* owner;
  uintptr_t mark;
  // Only where `known`. Bytes of its blocks in use; while it has the window, as of the last call
  // that settled that.
  uint32_t live;
  bool has_holes;        // it may have free blocks, joined, beside one at its end
  bool known;            // its blocks lead to it by way of the heap below
  TaggedBlock* waiting;  // freed, to be joined, the newest; a block apart has its offset here
  size_t first_tag;

  static ReapChunk* Make(void* raw, size_t bytes, void* owner, ReapChunk** list) {
    auto* c = ::new (raw)
        ReapChunk{nullptr, nullptr, bytes, owner, MarkOf(raw), 0, false, false, nullptr, 0};
    c->Enter(list);
    return c;
  }
  void Unlink(ReapChunk** list) {
    Leave(list);
    mark = 0;
  }
  void Move(ReapChunk** from, ReapChunk** to) {
    Leave(from);
    Enter(to);
  }

  // From the first place for a block to the end's, which has room for a pointer to this.
  TaggedBlock* first() { return reinterpret_cast<TaggedBlock*>(this + 1); }
  TaggedBlock* end() {
    return reinterpret_cast<TaggedBlock*>(reinterpret_cast<char*>(this) + bytes -
                                          TaggedBlock::kUnit);
  }
  bool Surrounds(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(this + 1) <
           bytes - sizeof(ReapChunk) - TaggedBlock::kUnit;
  }
  void SetEnd() {
    end()->SetEnd(TaggedBlock::Neighbour::kInUse);
    end()->next = reinterpret_cast<TaggedBlock*>(this);
  }
  static ReapChunk* OfEnd(const TaggedBlock* end) {
    return reinterpret_cast<ReapChunk*>(end->next);
  }
  // From there to the end: all of it, but for a scrap in front of an aligned block, if any, which
  // joins no other.
  bool IsAllFrom(const TaggedBlock* b) {
    return b == first() || (b == first()->At(TaggedBlock::kUnit) && first()->is_scrap());
  }
  bool OnlyWaits() const { return live == 0 && waiting != nullptr; }
  // Its free blocks that are joined; it has no window. All, or the one that it ended with.
  template <class F>
  void ForEachHole(F f) {
    if (!has_holes) {
      if (!end()->previous_in_use()) f(end()->Before());
      return;
    }
    for (TaggedBlock* b = first(); !b->is_end(); b = b->After()) {
      if (!b->in_use()) f(b);
    }
  }
  static ReapChunk* OfApart(TaggedBlock* b) {
    return reinterpret_cast<ReapChunk*>(reinterpret_cast<char*>(b) - b->apart_offset());
  }
  // For any memory of at least a header's size; null where no chunk begins.
  static void* OwnerAt(const void* start) {
    const auto* c = static_cast<const ReapChunk*>(start);
    return c->mark == MarkOf(start) ? c->owner : nullptr;
  }

  // The same; which chunk it is.
  static ReapChunk* At(void* start) {
    auto* c = static_cast<ReapChunk*>(start);
    return c != nullptr && c->mark == MarkOf(start) ? c : nullptr;
  }

 private:
  void Enter(ReapChunk** list) {
    next = *list;
    previous = nullptr;
    if (next != nullptr) next->previous = this;
    *list = this;
  }
  void Leave(ReapChunk** list) {
    if (next != nullptr) next->previous = previous;
    (previous != nullptr ? previous->next : *list) = next;
  }
  static uintptr_t MarkOf(const void* chunk) {
    return ~(reinterpret_cast<uintptr_t>(chunk) * 0x9e3779b97f4a7c15u);
  }
};
static_assert(sizeof(ReapChunk) == 64);

}  // namespace strata::layers
