// The blocks of a coalescing heap: a word in front of each block holds its size and whether it and
// the block before it are in use; a free block repeats its size in its last word, so that both
// neighbours of a block are found in constant time (Knuth's boundary tags, as Lea's malloc lays
// them out: 8 bytes a block in use). Used by Coalesce and by the finders that keep free blocks.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

class TaggedBlock {
 public:
  static constexpr size_t kTag = sizeof(size_t);
  static constexpr size_t kUnit = 16;
  static constexpr size_t kLeast = 32;  // tag, two links, size again
  enum class Neighbour : bool { kFree, kInUse };

  // Links of the finder's list; only a free block has them.
  TaggedBlock* next;
  TaggedBlock* previous;

  // What a block for so many bytes takes.
  static constexpr size_t BytesFor(size_t size) {
    const size_t bytes = RoundUp(size + kTag, kUnit);
    return bytes < kLeast ? kLeast : bytes;
  }

  static TaggedBlock* Of(void* payload) { return static_cast<TaggedBlock*>(payload); }
  void* payload() { return this; }

  // Bytes from this block's payload to the next one's.
  size_t size() const { return tag() & ~kFlags; }
  // To its neighbours. Whether it may be freed: is_live().
  bool in_use() const { return (tag() & (kInUse | kWaiting)) != 0; }
  bool is_live() const { return (tag() & kInUse) != 0; }
  // 0: it is not live, or lies apart.
  size_t SizeIfLiveInChunk() const { return (tag() & (kInUse | kApart)) == kInUse ? size() : 0; }
  bool previous_in_use() const { return (tag() & kPreviousInUse) != 0; }
  Neighbour previous_state() const {
    return previous_in_use() ? Neighbour::kInUse : Neighbour::kFree;
  }
  // The rest of a window, too small for a block.
  bool is_scrap() const { return in_use() && size() == kUnit; }
  // Alone in memory of its own: its neighbours must not be looked at.
  bool apart() const { return (tag() & kApart) != 0; }

  TaggedBlock* After() { return At(static_cast<ptrdiff_t>(size())); }
  TaggedBlock* Before() {
    return At(-static_cast<ptrdiff_t>(Word(-2)));
  }  // only if the one before is free
  TaggedBlock* At(ptrdiff_t bytes) {
    return reinterpret_cast<TaggedBlock*>(reinterpret_cast<char*>(this) + bytes);
  }

  // A block in use; the next one learns of it.
  void SetInUse(size_t bytes, Neighbour before) {
    SetTag(bytes | kInUse | (before == Neighbour::kInUse ? kPreviousInUse : 0));
    TaggedBlock* after = After();
    after->SetTag(after->tag() | kPreviousInUse);
  }
  // The same without a look at the next block, which is not there yet.
  void SetNewest(size_t bytes) { SetTag(bytes | kInUse | kPreviousInUse); }
  bool HasTagOfNewest(size_t bytes) const { return tag() == (bytes | kInUse | kPreviousInUse); }
  // `offset`: from the start of its memory, for whoever gives that back.
  void SetApart(size_t bytes, size_t offset) {
    Word(-2) = offset;
    SetTag(bytes | kInUse | kPreviousInUse | kApart);
  }
  size_t apart_offset() { return Word(-2); }
  // So that a second free of it shows, also after it became part of another block.
  void SetGone() { SetTag(tag() & ~(kInUse | kWaiting)); }
  // Freed, but its neighbours are not to know of it yet.
  void SetWaiting() { SetTag((tag() & ~kInUse) | kWaiting); }
  // A free block, whose neighbours are both in use.
  void SetFree(size_t bytes) {
    SetTag(bytes | kPreviousInUse);
    TaggedBlock* after = After();
    after->SetTag(after->tag() & ~kPreviousInUse);
    after->Word(-2) = bytes;
  }
  // The end of a region: a block in use without bytes.
  void SetEnd(Neighbour before) {
    SetTag(kInUse | (before == Neighbour::kInUse ? kPreviousInUse : 0));
  }
  bool is_end() const { return size() == 0; }

 private:
  static constexpr size_t kInUse = 1, kPreviousInUse = 2, kApart = 4, kWaiting = 8;
  static constexpr size_t kFlags = kUnit - 1;

  // The n-th word of the payload; -1 is the tag, -2 the size of the free block before.
  size_t& Word(ptrdiff_t n) { return reinterpret_cast<size_t*>(this)[n]; }
  size_t tag() const {
    return *reinterpret_cast<const size_t*>(reinterpret_cast<const char*>(this) - kTag);
  }
  void SetTag(size_t value) { Word(-1) = value; }
};

}  // namespace strata::layers
