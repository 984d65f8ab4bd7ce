// What a Reap holds of the heap below: the chunks that it bumps through, the newest first, and
// memory of their own for requests that are large for a chunk. Says how large the next chunk is to
// be, and heeds the cap. The heap below may have a static whole(bytes): what it takes for so many
// is then asked for; allocate_for(owner, bytes) and remap_for(owner, p, bytes, wanted): it then
// learns whose they will be; and a static least_for(owner): chunks have so many bytes at least, a
// power of two; and start_of(p): where it knows so, the block that p lies in.
#pragma once

#include <algorithm>

#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/detail/cap.h"
#include "strata/layers/detail/reap_chunk.h"
#include "strata/layers/heap.h"

namespace strata::layers {

// Chunks start at kFirst bytes and double up to kMost.
template <size_t kFirst, size_t kMost, Heap Below>
class ReapHoldings {
  using Chunk = ReapChunk;
  using Block = TaggedBlock;

 public:
  // Whether the heap below can move what it gave, as Mmap can.
  static constexpr bool moves_for_owner =
      requires(Below& below, void* p, size_t n) { below.remap_for(p, p, n, n); };
  static constexpr bool moves =
      moves_for_owner || requires(Below& below, void* p, size_t n) { below.remap(p, n, n); };
  static constexpr size_t kOverhead = sizeof(Chunk) + Block::kUnit;
  // Blocks above this have memory of their own.
  static constexpr size_t kApart = kMost / 4;

  // What a block of so many bytes takes then.
  static constexpr size_t ApartBytes(size_t bytes) {
    return Whole(bytes + sizeof(Chunk)) - sizeof(Chunk);
  }

  // Null: its blocks do not lead to it.
  Chunk* newest() const { return newest_; }
  // One in which blocks wait; null where none do.
  Chunk* with_waiting() const { return in_array_ == 0 ? with_waiting_ : array_[in_array_ - 1]; }
  void HasWaiting(Chunk* c) {
    if (in_array_ < kArray) {
      array_[in_array_++] = c;
    } else {
      c->Move(&chunks_, &with_waiting_);
    }
  }
  void HasNoneWaiting(Chunk* c) {
    for (size_t i = 0; i < in_array_; ++i) {
      if (array_[i] != c) continue;
      array_[i] = array_[--in_array_];
      return;
    }
    c->Move(&with_waiting_, &chunks_);
  }
  size_t held() const { return held_; }
  size_t apart_bytes() const { return apart_bytes_; }
  const Cap& cap() const { return cap_; }
  void set_cap(const Cap& cap) { cap_ = cap; }
  // What the cap kept the last Grow or TakeApart from taking; 0 where it was not in the way.
  size_t refused() const { return refused_; }
  void NoneRefused() { refused_ = 0; }
  // What `attempt` returns; where the cap refused it something, its function is asked.
  template <class F>
  void* AskingAtCap(F attempt) {
    return cap_.Asking(held_, refused_, attempt);
  }
  void set_owner(void* owner) { owner_ = owner; }

  // A new newest chunk with room for `bytes`. Null when the cap or the heap below refuses. The more
  // there is, the larger: doubling, as regions grow; or where a 16th lies in holes, so that this is
  // a heap and no region, by a 64th.
  Chunk* Grow(Below& below, size_t bytes, size_t in_holes) {
    const size_t scale = in_holes > held_ / 16 ? held_ / 64 : held_;
    const size_t first = First();
    size_t wanted = scale < first ? first : scale > kMost ? kMost : kFirst << Log2(scale / kFirst);
    while (wanted < bytes + kOverhead) wanted *= 2;
    // Below the cap or short of memory, a smaller one will do.
    const size_t least = Whole(bytes + kOverhead);
    if (!cap_.Allows(held_ + wanted) && cap_.Allows(held_ + least)) wanted = least;
    if (!Allowed(wanted)) return nullptr;
    Chunk* c = Take(below, wanted, &chunks_);
    if (c == nullptr && least < wanted) c = Take(below, least, &chunks_);
    if (c == nullptr) return nullptr;
    c->SetEnd();
    if constexpr (requires { below.start_of(c); }) c->known = below.start_of(c->first()) == c;
    newest_ = IfKnown(c);
    return c;
  }
  // The free block b ends where its chunk does. No walk along the list: a request may have
  // thousands of chunks.
  bool GaveBackChunkOf(Below& below, Block* b) {
    Chunk* c = Chunk::OfEnd(b->After());
    if (!c->IsAllFrom(b)) return false;
    GiveBackChunk(below, c);
    return true;
  }
  // None of its blocks waits.
  void GiveBackChunk(Below& below, Chunk* c) {
    GiveBack(below, c, &chunks_);
    if (c == newest_) newest_ = IfKnown(chunks_);
  }
  // All chunks but the largest of those below kMost, which is returned; null if there is none.
  Chunk* GiveBackButOne(Below& below) {
    in_array_ = 0;
    while (with_waiting_ != nullptr) HasNoneWaiting(with_waiting_);
    Chunk* kept = nullptr;
    for (Chunk* c = chunks_; c != nullptr; c = c->next) {
      if (c->bytes < kMost && (kept == nullptr || c->bytes > kept->bytes)) kept = c;
    }
    for (Chunk* c = chunks_; c != nullptr;) {
      Chunk* next = c->next;
      if (c != kept) GiveBack(below, c, &chunks_);
      c = next;
    }
    if (kept != nullptr) {
      kept->live = 0;
      kept->has_holes = false;
      kept->waiting = nullptr;
      kept->SetEnd();  // it may have ended with a hole
    }
    newest_ = IfKnown(kept);
    return kept;
  }

  Block* TakeApart(Below& below, size_t bytes) {
    const size_t whole = Whole(bytes + sizeof(Chunk));
    Chunk* c = Allowed(whole) ? Take(below, whole, &apart_) : nullptr;
    if (c == nullptr) return nullptr;
    Block* b = c->first();
    b->SetApart(c->bytes - sizeof(Chunk), sizeof(Chunk));
    apart_bytes_ += b->size();
    return b;
  }
  // The block b with room for `bytes`, wherever the heap below puts it. Null, and all is as it was,
  // when that or the cap refuses, or the block would not be large for a chunk any more.
  Block* MoveApart(Below& below, Block* b, size_t bytes)
    requires moves
  {
    Chunk* c = Chunk::OfApart(b);
    const size_t offset = b->apart_offset(), before = c->bytes, whole = Whole(offset + bytes);
    NoneRefused();
    if (bytes <= kApart || (whole > before && !Allowed(whole - before))) return nullptr;
    void* const owner = c->owner;
    c->Unlink(&apart_);
    void* moved = Remap(below, c, whole);
    const size_t now = moved == nullptr ? before : whole;
    c = Chunk::Make(moved == nullptr ? c : moved, now, owner, &apart_);
    b = Block::Of(reinterpret_cast<char*>(c) + offset);
    b->SetApart(now - offset, offset);
    held_ += now - before;
    apart_bytes_ += now - before;
    return moved == nullptr ? nullptr : b;
  }
  void GiveBackApart(Below& below, Block* b) { GiveBackApart(below, Chunk::OfApart(b)); }
  void GiveBackAllApart(Below& below) {
    while (apart_ != nullptr) GiveBackApart(below, apart_);
  }
  void GiveBackAll(Below& below) {
    GiveBackAllApart(below);
    while (chunks_ != nullptr) GiveBack(below, chunks_, &chunks_);
    while (with_waiting_ != nullptr) GiveBack(below, with_waiting_, &with_waiting_);
    newest_ = nullptr;
    in_array_ = 0;
  }

  // The memory goes as a whole, in the heap below.
  void Forget() {
    newest_ = chunks_ = with_waiting_ = apart_ = nullptr;
    in_array_ = 0;
    apart_bytes_ = held_ = 0;
  }

 private:
  static Chunk* IfKnown(Chunk* c) { return c != nullptr && c->known ? c : nullptr; }
  static constexpr size_t Whole(size_t bytes) {
    if constexpr (requires { Below::whole(bytes); }) {
      return Below::whole(bytes);
    } else {
      return RoundUp(bytes, 4096);
    }
  }

  size_t First() const {
    if constexpr (requires { Below::least_for(owner_); }) {
      return std::max(kFirst, Below::least_for(owner_));
    } else {
      return kFirst;
    }
  }
  bool Allowed(size_t wanted) {
    refused_ = cap_.Allows(held_ + wanted) ? 0 : wanted;
    return refused_ == 0;
  }
  // The cap allows it.
  Chunk* Take(Below& below, size_t bytes, Chunk** list) {
    void* raw;
    if constexpr (requires { below.allocate_for(owner_, bytes); }) {
      raw = below.allocate_for(owner_, bytes);
    } else {
      raw = below.allocate(bytes);
    }
    if (raw == nullptr) return nullptr;
    held_ += bytes;
    return Chunk::Make(raw, bytes, owner_, list);
  }
  void* Remap(Below& below, Chunk* c, size_t whole) {
    if constexpr (moves_for_owner) {
      return below.remap_for(owner_, c, c->bytes, whole);
    } else {
      return below.remap(c, c->bytes, whole);
    }
  }
  void GiveBack(Below& below, Chunk* c, Chunk** list) {
    held_ -= c->bytes;
    c->Unlink(list);
    below.deallocate(c, c->bytes);
  }
  void GiveBackApart(Below& below, Chunk* c) {
    apart_bytes_ -= c->bytes - sizeof(Chunk);
    GiveBack(below, c, &apart_);
  }

  Chunk* newest_ = nullptr;
  Chunk* chunks_ = nullptr;
  // Chunks with waiting blocks: the first four in an array, for they are joined again soon; others
  // on a list.
  static constexpr size_t kArray = 4;
  Chunk* with_waiting_ = nullptr;
  Chunk* array_[kArray] = {};
  size_t in_array_ = 0;
  Chunk* apart_ = nullptr;
  size_t apart_bytes_ = 0;
  size_t held_ = 0;  // which the cap is on
  void* owner_ = nullptr;
  Cap cap_;
  size_t refused_ = 0;
};

}  // namespace strata::layers
