// Reap: a region whose objects can also be freed one by one (Berger, Zorn, McKinley: Reconsidering
// Custom Memory Allocation, OOPSLA 2002). Until the first free it bumps, at the cost of one tag a
// block; a free makes it a heap that joins neighbours and takes the best fit; when all is free it
// is a region again. Where the last block is freed the bump steps back, so a stack of objects never
// leaves region speed. clear() and the end give everything back together.
//
// Chunks start at kFirst bytes and double up to kMost; a request that is large for a chunk gets
// memory of its own, which goes back when it is freed. A cap bounds what is held; one that is
// reached asks a function, which may raise it.
#pragma once

#include "strata/layers/best_fit.h"
#include "strata/layers/boundary_tag.h"
#include "strata/layers/heap.h"

namespace strata::layers {

// Asked when `held` + `wanted` bytes would exceed the cap. Returns the new cap; one that is still
// too low makes the request fail.
using CapFunction = size_t (*)(void* context, size_t held, size_t wanted, size_t cap);

template <size_t kFirst = 8 << 10, size_t kMost = 1 << 20>
struct Reap {
  static_assert(IsPowerOfTwo(kFirst) && IsPowerOfTwo(kMost) && kFirst >= 4096 && kFirst <= kMost);

  template <Heap Below>
  class On : public Through<Below> {
    static_assert(Below::alignment >= 16, "Reap needs a heap aligned to 16 bytes");
    using Block = TaggedBlock;
    using Finder = BasicBestFit<32, 2, 21>;  // half a KiB: there may be many reaps

   public:
    static constexpr size_t alignment = Block::kUnit;
    static constexpr bool thread_safe = false;
    // The heap below is asked for this much or less at a time, save for larger requests.
    static constexpr size_t most_chunk = kMost;

    using Through<Below>::Through;
    ~On() { GiveBackAll(); }

    void* allocate(size_t size) {
      const size_t bytes = BytesFor(size);
      // The room is a multiple of 16 below PTRDIFF_MAX, so an overflown sum does not fit either.
      if (free_blocks_ == 0 && bytes <= Room() && size <= kMaxRequest) [[likely]]
        return Bump(bytes);
      return AllocateSlow(size);
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (size > kMaxRequest - align - 2 * Block::kLeast) return nullptr;
      auto* p = static_cast<char*>(allocate(size + align + Block::kLeast));
      if (p == nullptr) return nullptr;
      const size_t over = (0 - reinterpret_cast<uintptr_t>(p)) & (align - 1);
      if (over == 0) return p;
      return AlignWithin(Block::Of(p), over < Block::kLeast ? over + align : over, BytesFor(size));
    }

    void deallocate(void* p) {
      Block* b = Block::Of(p);
      if (b->apart()) return GiveBackApart(ChunkOfApart(b));
      const size_t bytes = b->size();
      used_ -= bytes;
      b->SetGone();
      if (used_ == 0) return StartAnew();
      Free(b, bytes);
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return Block::Of(p)->size() - Block::kTag; }

    // False: the block at p was freed before. Catches a second free unless new blocks have been
    // laid over the place.
    static bool is_live(void* p) { return Block::Of(p)->in_use() && Block::Of(p)->size() != 0; }

    // The block at p becomes `size` bytes long where it lies; false leaves it as it was.
    bool resize(void* p, size_t size) {
      if (size > kMaxRequest) return false;
      Block* b = Block::Of(p);
      const size_t bytes = BytesFor(size), before = b->size();
      if (b->apart()) return bytes <= before && bytes >= before / 2;
      if (bytes > before && !Extend(b, bytes)) return false;
      const size_t over = b->size() - bytes;
      used_ += b->size() - before;
      if (over >= Block::kLeast) Cut(b, bytes);
      return true;
    }

    void clear() {
      while (apart_ != nullptr) GiveBackApart(apart_);
      used_ = 0;
      StartAnew();
    }

    // 0: none.
    void set_cap(size_t bytes, CapFunction reached = nullptr, void* context = nullptr) {
      cap_ = bytes;
      cap_reached_ = reached;
      cap_context_ = context;
    }
    size_t cap() const { return cap_; }

    // Who is named in the chunks taken from now on, for owner_at().
    void set_owner(void* owner) { owner_ = owner; }
    // The owner of the reap that has its chunk at `start`, where a block of the heap below begins
    // that is at least as large as a chunk's header; null if it is not a reap's.
    static void* owner_at(const void* start) {
      const auto* c = static_cast<const Chunk*>(start);
      return c->mark == MarkOf(start) ? c->owner : nullptr;
    }
    static constexpr size_t header_bytes = 64;
    size_t used() const { return used_ + apart_bytes_; }  // bytes in blocks, with their tags
    // Bytes taken from below. The cap counts all of it but the finder, so that a full reap can
    // still be freed into.
    size_t held() const { return held_ + (finder_ == nullptr ? 0 : sizeof(Finder)); }
    bool bumping() const { return free_blocks_ == 0; }

   private:
    struct alignas(16) Chunk {
      Chunk* next;
      Chunk* previous;
      size_t bytes;      // with this header
      Block* abandoned;  // what the bump left of it, while there is no finder to keep that
      void* owner;
      uintptr_t mark;
      size_t apart_offset;
      size_t first_tag;
    };
    static_assert(sizeof(Chunk) == 64);
    static uintptr_t MarkOf(const void* chunk) {
      return ~(reinterpret_cast<uintptr_t>(chunk) * 0x9e3779b97f4a7c15u);
    }
    static constexpr size_t kOverhead = sizeof(Chunk);
    static constexpr size_t kApart = kMost / 4;

    static constexpr size_t BytesFor(size_t size) {
      const size_t bytes = RoundUp(size + Block::kTag, Block::kUnit);
      return bytes < Block::kLeast ? Block::kLeast : bytes;
    }
    // From the first place for a block to where the end's would be.
    static Block* FirstOf(Chunk* c) { return reinterpret_cast<Block*>(c + 1); }
    static Block* EndOf(Chunk* c) {
      return reinterpret_cast<Block*>(reinterpret_cast<char*>(c) + c->bytes);
    }
    size_t Room() const { return static_cast<size_t>(end_ - at_); }

    void* Bump(size_t bytes) {
      auto* b = reinterpret_cast<Block*>(at_);
      b->SetNewest(bytes);
      at_ += bytes;
      used_ += bytes;
      return b;
    }

    [[gnu::noinline]] void* AllocateSlow(size_t size) {
      if (size > kMaxRequest) return nullptr;
      const size_t bytes = BytesFor(size);
      if (bytes > kApart) return AllocateApart(bytes);
      Block* b = free_blocks_ != 0 ? finder_->Take(bytes) : nullptr;
      if (b == nullptr) return bytes <= Room() || NewChunk(bytes) ? Bump(bytes) : nullptr;
      --free_blocks_;
      b->SetInUse(b->size(), true);
      used_ += b->size();
      if (b->size() - bytes >= Block::kLeast) Cut(b, bytes);
      return b;
    }

    // --- Blocks

    // b's used bytes are counted as gone already. Its neighbours, where free, join it.
    void Free(Block* b, size_t bytes) {
      if (!b->previous_in_use()) {
        Block* before = b->Before();
        bytes += before->size();
        Unkeep(before);
        b = before;
      }
      Block* after = b->At(static_cast<ptrdiff_t>(bytes));
      if (reinterpret_cast<char*>(after) == at_) {
        at_ = reinterpret_cast<char*>(b);
        return;
      }
      if (!after->in_use()) {
        bytes += after->size();
        Unkeep(after);
      }
      b->SetFree(bytes);
      if (b->After()->is_end() && GaveBackChunkOf(b)) return;
      Keep(b);
    }

    // b is in use; what it has beyond `bytes` becomes free.
    void Cut(Block* b, size_t bytes) {
      const size_t over = b->size() - bytes;
      Block* rest = b->At(static_cast<ptrdiff_t>(bytes));
      SetSize(rest, over, true);
      SetSize(b, bytes, b->previous_in_use());
      used_ -= over;
      rest->SetGone();
      Free(rest, over);
    }

    // At the bump's edge there is no next block to tell.
    void SetSize(Block* b, size_t bytes, bool previous_used) {
      if (reinterpret_cast<char*>(b) + bytes == at_ && previous_used) {
        b->SetNewest(bytes);
      } else {
        b->SetInUse(bytes, previous_used);
      }
    }

    bool Extend(Block* b, size_t bytes) {
      Block* after = b->After();
      if (reinterpret_cast<char*>(after) == at_) {
        const size_t more = bytes - b->size();
        if (more > Room()) return false;
        at_ += more;
        b->SetInUse(bytes, b->previous_in_use());
        return true;
      }
      if (after->in_use() || b->size() + after->size() < bytes) return false;
      Unkeep(after);
      b->SetInUse(b->size() + after->size(), b->previous_in_use());
      return true;
    }

    // Cuts `over` bytes off the front of b, and what is beyond `bytes` off its end.
    void* AlignWithin(Block* b, size_t over, size_t bytes) {
      Block* inner = b->At(static_cast<ptrdiff_t>(over));
      if (b->apart()) {
        inner->SetApart(b->size() - over, b->apart_offset() + over);
        return inner;
      }
      SetSize(inner, b->size() - over, true);
      SetSize(b, over, b->previous_in_use());
      used_ -= over;
      b->SetGone();
      Free(b, over);
      if (inner->size() - bytes >= Block::kLeast) Cut(inner, bytes);
      return inner;
    }

    // A reap that can't have its finder loses the block until it is cleared, and goes on.
    void Keep(Block* b) {
      const bool first = finder_ == nullptr;
      if (first && !MakeFinder()) {
        used_ += b->size();
        return b->SetInUse(b->size(), true);
      }
      finder_->Add(b);
      ++free_blocks_;
      if (first) KeepAbandoned();
    }
    void KeepAbandoned() {
      for (Chunk* c = chunks_; c != nullptr;) {
        Chunk* next = c->next;
        if (Block* b = std::exchange(c->abandoned, nullptr)) Free(b, b->size());
        c = next;
      }
    }
    void Unkeep(Block* b) {
      finder_->Remove(b);
      --free_blocks_;
    }
    bool MakeFinder() {
      void* raw = this->next_.allocate(sizeof(Finder));
      if (raw == nullptr) return false;
      finder_ = ::new (raw) Finder();
      return true;
    }

    // --- Chunks

    bool MayHold(size_t bytes) {
      if (cap_ == 0 || held_ + bytes <= cap_) return true;
      if (cap_reached_ == nullptr) return false;
      cap_ = cap_reached_(cap_context_, held_, bytes, cap_);
      return cap_ == 0 || held_ + bytes <= cap_;
    }

    // The caller has asked MayHold.
    Chunk* Take(size_t bytes, Chunk** list) {
      void* raw = this->next_.allocate(bytes);
      if (raw == nullptr) return nullptr;
      held_ += bytes;
      auto* c = ::new (raw) Chunk{*list, nullptr, bytes, nullptr, owner_, MarkOf(raw), 0, 0};
      if (c->next != nullptr) c->next->previous = c;
      *list = c;
      return c;
    }
    void GiveBack(Chunk* c, Chunk** list) {
      if (c->next != nullptr) c->next->previous = c->previous;
      (c->previous != nullptr ? c->previous->next : *list) = c->next;
      held_ -= c->bytes;
      c->mark = 0;
      this->next_.deallocate(c, c->bytes);
    }

    // What the bump leaves of its chunk becomes a free block, or waste until the next clear.
    bool NewChunk(size_t bytes) {
      size_t wanted = held_ < kFirst  ? kFirst
                      : held_ > kMost ? kMost
                                      : kFirst << Log2(held_ / kFirst);
      while (wanted < bytes + kOverhead) wanted *= 2;
      // Below the cap or short of memory, a smaller one will do.
      const size_t least = RoundUp(bytes + kOverhead, 4096);
      if (cap_ != 0 && held_ + wanted > cap_ && held_ + least <= cap_) wanted = least;
      if (!MayHold(wanted)) return false;
      char* const edge = at_;
      const size_t left = Room();
      Chunk* c = Take(wanted, &chunks_);
      if (c == nullptr && least < wanted) c = Take(least, &chunks_);
      if (c == nullptr) return false;
      at_ = reinterpret_cast<char*>(FirstOf(c));
      end_ = reinterpret_cast<char*>(EndOf(c));
      EndOf(c)->SetEnd(true);
      if (left != 0) Abandon(reinterpret_cast<Block*>(edge), left, c->next);
      return true;
    }
    void Abandon(Block* rest, size_t bytes, Chunk* chunk) {
      rest->SetInUse(bytes, true);
      if (bytes < Block::kLeast) return;
      if (finder_ == nullptr) {
        chunk->abandoned = rest;
      } else {
        Free(rest, bytes);
      }
    }

    bool GaveBackChunkOf(Block* b) {
      auto* c = reinterpret_cast<Chunk*>(b) - 1;
      for (Chunk* at = chunks_; at != nullptr; at = at->next) {
        if (at != c) continue;
        GiveBack(c, &chunks_);
        return true;
      }
      return false;  // b begins in the middle of its chunk
    }

    void* AllocateApart(size_t bytes) {
      const size_t whole = RoundUp(bytes + kOverhead, 4096);
      Chunk* c = MayHold(whole) ? Take(whole, &apart_) : nullptr;
      if (c == nullptr) return nullptr;
      Block* b = FirstOf(c);
      b->SetApart(c->bytes - kOverhead, kOverhead);
      apart_bytes_ += b->size();
      return b;
    }
    static Chunk* ChunkOfApart(Block* b) {
      return reinterpret_cast<Chunk*>(reinterpret_cast<char*>(b) - b->apart_offset());
    }
    void GiveBackApart(Chunk* c) {
      apart_bytes_ -= c->bytes - kOverhead;
      GiveBack(c, &apart_);
    }

    // A region again, in the chunk that is largest of those below kMost.
    void StartAnew() {
      Chunk* kept = nullptr;
      for (Chunk* c = chunks_; c != nullptr; c = c->next) {
        if (c->bytes < kMost && (kept == nullptr || c->bytes > kept->bytes)) kept = c;
      }
      for (Chunk* c = chunks_; c != nullptr;) {
        Chunk* next = c->next;
        if (c != kept) GiveBack(c, &chunks_);
        c = next;
      }
      if (kept != nullptr) kept->abandoned = nullptr;
      if (finder_ != nullptr) finder_->Clear();
      free_blocks_ = 0;
      at_ = kept == nullptr ? nullptr : reinterpret_cast<char*>(FirstOf(kept));
      end_ = kept == nullptr ? nullptr : reinterpret_cast<char*>(EndOf(kept));
    }
    void GiveBackAll() {
      while (apart_ != nullptr) GiveBackApart(apart_);
      while (chunks_ != nullptr) GiveBack(chunks_, &chunks_);
      if (finder_ != nullptr) this->next_.deallocate(finder_, sizeof(Finder));
    }

    char* at_ = nullptr;  // where the next block's payload will be
    char* end_ = nullptr;
    size_t free_blocks_ = 0;
    size_t used_ = 0;
    Finder* finder_ = nullptr;  // made by the first free that needs it
    Chunk* chunks_ = nullptr;   // the newest, which is bumped, first
    Chunk* apart_ = nullptr;
    size_t apart_bytes_ = 0;
    size_t held_ = 0;
    void* owner_ = nullptr;
    size_t cap_ = 0;
    CapFunction cap_reached_ = nullptr;
    void* cap_context_ = nullptr;
  };
};

}  // namespace strata::layers
