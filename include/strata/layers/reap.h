// Reap: a region whose objects can also be freed one by one (Berger, Zorn, McKinley: Reconsidering
// Custom Memory Allocation, OOPSLA 2002). It bumps a pointer through a window: the rest of its
// newest chunk, and when that is used up, the best-fitting hole that frees have left, so what is
// freed is used again at nearly the speed of a region. Each block has a tag in front, by which free
// neighbours join. Where the last block is freed the bump steps back; when all is free the reap is
// as new. clear() and the end give everything back together.
//
// The heap below may have a static whole(bytes): what it takes for so many is then asked for.
// Chunks start at kFirst bytes and double up to kMost; a request that is large for a chunk gets
// memory of its own, which goes back when it is freed. A cap bounds what is held; one that is
// reached asks a function, which may raise it.
#pragma once

#include "strata/layers/best_fit.h"
#include "strata/layers/boundary_tag.h"
#include "strata/layers/cap.h"
#include "strata/layers/heap.h"
#include "strata/layers/reap_chunk.h"

namespace strata::layers {

// The finder that is there if none is named is half a KiB: there may be many reaps.
template <size_t kFirst = 8 << 10, size_t kMost = 1 << 20, class Finder = BasicBestFit<32, 2, 21>>
struct Reap {
  static_assert(IsPowerOfTwo(kFirst) && IsPowerOfTwo(kMost) && kFirst >= 4096 && kFirst <= kMost);

  template <Heap Below>
  class On : public Through<Below> {
    static_assert(Below::alignment >= 16, "Reap needs a heap aligned to 16 bytes");
    using Block = TaggedBlock;
    using Chunk = ReapChunk;

   public:
    static constexpr size_t alignment = Block::kUnit;
    static constexpr bool thread_safe = false;
    // The heap below is asked for this much or less at a time, save for larger requests.
    static constexpr size_t most_chunk = kMost;

    using Through<Below>::Through;
    ~On() { GiveBackAll(); }

    void* allocate(size_t size) {
      const size_t bytes = BytesFor(size);
      auto* b = reinterpret_cast<Block*>(at_);
      if (bytes > static_cast<size_t>(limit_ - at_) || size > kMaxRequest) [[unlikely]]
        return AllocateSlow(size);
      b->SetNewest(bytes);
      at_ += bytes;
      return b;
    }

    void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (size > kMaxRequest - align - 2 * Block::kLeast) return nullptr;
      auto* p = static_cast<char*>(allocate(size + align + Block::kLeast));
      if (p == nullptr) return nullptr;
      const Settle settle(*this);
      const size_t over = (0 - reinterpret_cast<uintptr_t>(p)) & (align - 1);
      if (over == 0) return p;
      return AlignWithin(Block::Of(p), over < Block::kLeast ? over + align : over, BytesFor(size));
    }

    void deallocate(void* p) {
      const Settle settle(*this);
      Block* b = Block::Of(p);
      if (b->apart()) return GiveBackApart(Chunk::OfApart(b));
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
    bool is_live(void* p) const {
      const auto into = static_cast<size_t>(static_cast<char*>(p) - edge());
      if (into < static_cast<size_t>(end_ - edge())) return false;
      return Block::Of(p)->in_use() && Block::Of(p)->size() != 0;
    }

    // The block at p becomes `size` bytes long where it lies; false leaves it as it was.
    bool resize(void* p, size_t size) {
      if (size > kMaxRequest) return false;
      const Settle settle(*this);
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
      const Settle settle(*this);
      while (apart_ != nullptr) GiveBackApart(apart_);
      used_ = 0;
      StartAnew();
    }

    // The next chunk is large enough for so many bytes, as far as chunks go. A hint: no memory, no
    // chunk.
    void reserve(size_t bytes) {
      const Settle settle(*this);
      if (bytes > kMost - kOverhead) bytes = kMost - kOverhead;
      if (bytes > Room()) NewChunk(RoundUp(bytes, Block::kUnit));
    }

    // 0: none.
    void set_cap(size_t bytes, CapFunction reached = nullptr, void* context = nullptr) {
      cap_ = Cap(bytes, reached, context);
    }
    size_t cap() const { return cap_.bytes(); }

    // All requests take the slow path: for a heap that is used under a lock, and asked without.
    void shut_window() { shut_ = true; }

    // Who is named in the chunks taken from now on, for owner_at().
    void set_owner(void* owner) { owner_ = owner; }
    // The owner of the reap that has its chunk at `start`, where a block of the heap below begins
    // that is at least as large as a chunk's header; null if it is not a reap's.
    static void* owner_at(const void* start) { return Chunk::OwnerAt(start); }
    // Bytes in blocks, with their tags.
    size_t used() const { return used_ + static_cast<size_t>(edge() - edge_) + apart_bytes_; }
    // The most that a block for `size` bytes can add to used(); not above kMaxRequest.
    static constexpr size_t most_for(size_t size, size_t align = alignment) {
      const size_t bytes = BytesFor(align <= alignment ? size : size + align + Block::kLeast);
      return bytes > kApart ? Whole(bytes + sizeof(Chunk)) - sizeof(Chunk)
                            : bytes + Block::kLeast - Block::kUnit;
    }
    // Whether p lies in the chunk that is bumped.
    bool in_newest_chunk(const void* p) const {
      return chunks_ != nullptr &&
             reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(chunks_->first()) <
                 chunks_->bytes - kOverhead;
    }
    size_t held() const { return held_; }  // bytes taken from below, which the cap is on
    bool bumping() const { return free_blocks_ == 0; }

   private:
    static constexpr size_t kOverhead = sizeof(Chunk) + Block::kUnit;
    static constexpr size_t kApart = kMost / 4;

    // Around everything but the fast path, which only moves at_.
    class Settle {
     public:
      explicit Settle(On& heap) : heap_(heap) {
        if (heap.limit_ == nullptr) return;
        heap.used_ += static_cast<size_t>(heap.at_ - heap.edge_);
        heap.edge_ = heap.at_;
      }
      ~Settle() {
        if (heap_.shut_) return;
        heap_.at_ = heap_.edge_;
        // Seldom. Stored with at_ it would make one move of 16 bytes, which waits for the stores
        // to what it loads.
        if (heap_.limit_ != heap_.end_) heap_.limit_ = heap_.end_;
      }
      Settle(const Settle&) = delete;
      Settle& operator=(const Settle&) = delete;

     private:
      On& heap_;
    };

    static constexpr size_t BytesFor(size_t size) {
      const size_t bytes = RoundUp(size + Block::kTag, Block::kUnit);
      return bytes < Block::kLeast ? Block::kLeast : bytes;
    }
    // Where the window begins, also between the fast path's calls.
    char* edge() const { return limit_ == nullptr ? edge_ : at_; }
    size_t Room() const { return static_cast<size_t>(end_ - edge_); }

    void* Bump(size_t bytes) {
      auto* b = reinterpret_cast<Block*>(edge_);
      b->SetNewest(bytes);
      edge_ += bytes;
      used_ += bytes;
      return b;
    }

    [[gnu::noinline]] void* AllocateSlow(size_t size) {
      if (size > kMaxRequest) return nullptr;
      const Settle settle(*this);
      const size_t bytes = BytesFor(size);
      if (bytes > kApart) return AllocateApart(bytes);
      if (bytes <= Room()) return Bump(bytes);
      if (Block* b = free_blocks_ != 0 ? finder_.Take(bytes) : nullptr) {
        --free_blocks_;
        return BumpIn(b, bytes);
      }
      return NewChunk(bytes) ? Bump(bytes) : nullptr;
    }

    // In a free block, of which the rest is the window from now on if it is larger than that.
    void* BumpIn(Block* b, size_t bytes) {
      const size_t whole = b->size();
      b->SetInUse(whole, true);
      used_ += whole;
      const size_t over = whole - bytes;
      if (over < Block::kLeast) return b;
      if (over <= Room()) {
        Cut(b, bytes);
        return b;
      }
      char* const old_edge = std::exchange(edge_, reinterpret_cast<char*>(b) + bytes);
      char* const old_end = std::exchange(end_, edge_ + over);
      b->SetNewest(bytes);
      used_ -= over;
      PutAway(old_edge, old_end);
      return b;
    }

    // What is left of a window that is no longer one. A rest too small for a block stays until the
    // block in front of it is freed.
    void PutAway(char* edge, char* end) {
      if (edge == end) return;
      auto* rest = reinterpret_cast<Block*>(edge);
      const auto left = static_cast<size_t>(end - edge);
      rest->SetInUse(left, true);
      if (left < Block::kLeast) return;
      rest->SetGone();
      Free(rest, left);
    }
    static bool IsScrap(const Block* b) { return b->in_use() && b->size() == Block::kUnit; }

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
      if (reinterpret_cast<char*>(after) != edge_ && IsScrap(after)) {
        bytes += Block::kUnit;
        after = after->At(Block::kUnit);
      }
      if (reinterpret_cast<char*>(after) == edge_) {
        edge_ = reinterpret_cast<char*>(b);
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
      if (reinterpret_cast<char*>(b) + bytes == edge_ && previous_used) {
        b->SetNewest(bytes);
      } else {
        b->SetInUse(bytes, previous_used);
      }
    }

    bool Extend(Block* b, size_t bytes) {
      Block* after = b->After();
      if (reinterpret_cast<char*>(after) == edge_) {
        const size_t more = bytes - b->size();
        if (more > Room()) return false;
        edge_ += more;
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

    void Keep(Block* b) {
      finder_.Add(b);
      ++free_blocks_;
    }
    void Unkeep(Block* b) {
      finder_.Remove(b);
      --free_blocks_;
    }
    // --- Chunks

    static constexpr size_t Whole(size_t bytes) {
      if constexpr (requires { Below::whole(bytes); }) {
        return Below::whole(bytes);
      } else {
        return RoundUp(bytes, 4096);
      }
    }

    // The caller has asked the cap.
    Chunk* Take(size_t bytes, Chunk** list) {
      void* raw = this->next_.allocate(bytes);
      if (raw == nullptr) return nullptr;
      held_ += bytes;
      return Chunk::Make(raw, bytes, owner_, list);
    }
    void GiveBack(Chunk* c, Chunk** list) {
      held_ -= c->bytes;
      c->Unlink(list);
      this->next_.deallocate(c, c->bytes);
    }

    // What the bump leaves of its chunk becomes a free block, or waste until the next clear.
    bool NewChunk(size_t bytes) {
      size_t wanted = held_ < kFirst  ? kFirst
                      : held_ > kMost ? kMost
                                      : kFirst << Log2(held_ / kFirst);
      while (wanted < bytes + kOverhead) wanted *= 2;
      // Below the cap or short of memory, a smaller one will do.
      const size_t least = Whole(bytes + kOverhead);
      if (!cap_.Allows(held_ + wanted) && cap_.Allows(held_ + least)) wanted = least;
      if (!cap_.Grants(held_, wanted)) return false;
      Chunk* c = Take(wanted, &chunks_);
      if (c == nullptr && least < wanted) c = Take(least, &chunks_);
      if (c == nullptr) return false;
      char* const old_edge = std::exchange(edge_, reinterpret_cast<char*>(c->first()));
      char* const old_end = std::exchange(end_, reinterpret_cast<char*>(c->end()));
      c->SetEnd();
      PutAway(old_edge, old_end);
      return true;
    }
    // b ends where its chunk does. No walk along the list: a request may have thousands of chunks.
    bool GaveBackChunkOf(Block* b) {
      Chunk* c = Chunk::OfEnd(b->After());
      if (b != c->first()) return false;
      GiveBack(c, &chunks_);
      return true;
    }

    void* AllocateApart(size_t bytes) {
      const size_t whole = Whole(bytes + sizeof(Chunk));
      Chunk* c = cap_.Grants(held_, whole) ? Take(whole, &apart_) : nullptr;
      if (c == nullptr) return nullptr;
      Block* b = c->first();
      b->SetApart(c->bytes - sizeof(Chunk), sizeof(Chunk));
      apart_bytes_ += b->size();
      return b;
    }
    void GiveBackApart(Chunk* c) {
      apart_bytes_ -= c->bytes - sizeof(Chunk);
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
      finder_.Clear();
      free_blocks_ = 0;
      edge_ = kept == nullptr ? nullptr : reinterpret_cast<char*>(kept->first());
      end_ = kept == nullptr ? nullptr : reinterpret_cast<char*>(kept->end());
    }
    void GiveBackAll() {
      while (apart_ != nullptr) GiveBackApart(apart_);
      while (chunks_ != nullptr) GiveBack(chunks_, &chunks_);
    }

    // The window of the fast path; both null while it is closed. The first two words of a reap, for
    // the copy of the fast path in strata/reap.h.
    char* at_ = nullptr;     // where the next block's payload will be
    char* limit_ = nullptr;  // end_
    char* edge_ = nullptr;   // at_, as of the last call that was not the fast path's
    size_t used_ = 0;
    size_t free_blocks_ = 0;
    char* end_ = nullptr;
    Finder finder_;
    Chunk* chunks_ = nullptr;  // the newest, which is bumped, first
    Chunk* apart_ = nullptr;
    size_t apart_bytes_ = 0;
    size_t held_ = 0;
    void* owner_ = nullptr;
    bool shut_ = false;
    Cap cap_;
  };
};

}  // namespace strata::layers
