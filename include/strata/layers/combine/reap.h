// Reap: a region whose objects can also be freed one by one (Berger, Zorn, McKinley: Reconsidering
// Custom Memory Allocation, OOPSLA 2002). It bumps a pointer through a window: the rest of its
// newest chunk, and when that is used up, a large hole that frees have left; small holes are filled
// by best fit. Each block has a tag in front, by which free neighbours join. Where the last block
// is freed the bump steps back; when all is free the reap is as new. clear() and the end give
// everything back together.
#pragma once

#include "strata/layers/combine/tree_fit.h"
#include "strata/layers/detail/reap_holdings.h"
#include "strata/layers/detail/reap_window.h"
#include "strata/layers/detail/waiting_blocks.h"

namespace strata::layers {

// Neighbours join late, as in Lea's fast bins: what is freed waits until the window is used up, for
// most regions end before that. Where the heap below knows in which of its blocks an address lies
// (start_of; what it says of a new chunk it says of all of it from then on), those of a chunk wait
// together, and nothing joins in one whose last block goes. Else all join once half of the largest
// chunk waits, or so little is used that each may keep a chunk.
//
// A request that is large for a chunk gets memory of its own, which goes back when it is freed. A
// cap bounds what is held; one that is reached asks a function, which may raise it, free blocks of
// the heap instead, or throw; it must not end the heap.
//
// Chunks start at kFirst bytes and double up to kMost. The finder that is there if none is named
// has trees for holes up to that only: there may be many reaps.
template <size_t kFirst = 8 << 10, size_t kMost = 1 << 20, class Finder = BasicTreeFit<Log2(kMost)>>
struct Reap {
  static_assert(IsPowerOfTwo(kFirst) && IsPowerOfTwo(kMost) && kFirst >= 4096 && kFirst <= kMost &&
                    kMost <= size_t{1} << 31,
                "Reap: chunks from one power of two, at least 4096, up to another");

  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= 16, "Reap needs a heap aligned to 16 bytes");
    static_assert(!internal::OneSize<Below>(),
                  "Reap asks for chunks of many sizes: put Fixed<bytes> or Bins between it and a "
                  "FreeList or Inbox");
    using Block = TaggedBlock;
    using Chunk = ReapChunk;
    using Holdings = ReapHoldings<kFirst, kMost, Below>;
    static constexpr bool kLeadsToChunks = requires(Below& below, void* p) { below.start_of(p); };

   public:
    static constexpr size_t alignment = Block::kUnit;
    static constexpr bool thread_safe = false;
    // The heap below is asked for this much or less at a time, save for larger requests.
    static constexpr size_t most_chunk = kMost;

    using Over<Below>::Over;
    ~On() { holdings_.GiveBackAll(this->next_); }

    void* allocate(size_t size) {
      void* p;
      return bump(size, &p) ? p : AllocateSlow(size);
    }
    // From the window alone; false where allocate() has to look further.
    [[gnu::always_inline]] bool bump(size_t size, void** p) { return window_.Bump(size, p); }
    // The newest block of the window goes; false for any other p, which deallocate() may be for.
    [[gnu::always_inline]] bool step_back(void* p) { return window_.StepBack(p, kMost); }

    [[gnu::always_inline]] void* allocate(size_t size, size_t align) {
      if (align <= alignment) return allocate(size);
      if (align > kMaxRequest / 2 || size > kMaxRequest - align - 2 * Block::kLeast)
        return Impossible();
      if (void* fits = AlignInWindow(size, align)) return fits;
      auto* p = static_cast<char*>(allocate(size + align + Block::kLeast));
      if (p == nullptr) return nullptr;
      const ReapWindow::Settle settle(window_);
      const size_t over = (0 - reinterpret_cast<uintptr_t>(p)) & (align - 1);
      if (over == 0) return p;
      return AlignWithin(Block::Of(p), over < Block::kLeast ? over + align : over,
                         Block::BytesFor(size));
    }

    void deallocate(void* p) {
      Block* b = Block::Of(p);
      if (b->apart()) [[unlikely]]
        return holdings_.GiveBackApart(this->next_, b);
      if (Chunk* c = ChunkOf(b)) return FreeIn(c, b);
      const size_t bytes = b->size();
      if (static_cast<char*>(p) + bytes == window_.edge_now() && b->previous_in_use()) {
        window_.StepBackTo(b);
      } else {
        window_.used -= bytes;
        if (waiting_.Add(b, bytes) > kMostWaiting || kLeadsToChunks) [[unlikely]]
          JoinNow();
      }
      if (window_.used_now() <= window_.few) [[unlikely]]
        JoinNow();
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    // p lies in a chunk of this heap that begins at `start`, which start_of(p) is: the block there
    // goes if it is live and neither the newest nor the last of its chunk. Calls nothing. How many
    // bytes went; 0, with nothing done: free_in() may be for it. For a shut window.
    [[gnu::always_inline]] size_t set_aside(void* p, void* start) {
      Block* b = Block::Of(p);
      auto* c = static_cast<Chunk*>(start);
      const size_t bytes = b->SizeIfLiveInChunk();
      // What the window's chunk has in use may not be settled, and look like less.
      if (bytes == 0 || bytes >= c->live || window_.Surrounds(p) ||
          static_cast<char*>(p) + bytes == window_.edge_now()) [[unlikely]]
        return 0;
      window_.used -= bytes;
      Wait(c, b, bytes);
      return bytes;
    }
    // The same, for any block and window. False, with nothing done: none that is live.
    [[gnu::always_inline]] bool free_in(void* p, void* start) {
      // After steps back it may look like more, and nothing be used without this block.
      if (Block::Of(p)->size() != window_.used_now() && set_aside(p, start) != 0) return true;
      if (!is_live(p)) return false;
      FreeIn(static_cast<Chunk*>(start), Block::Of(p));
      return true;
    }
    size_t size_of(void* p) { return Block::Of(p)->size() - Block::kTag; }

    // False: the block at p was freed before. Catches a second free unless new blocks have been
    // laid over the place.
    bool is_live(void* p) const {
      return !window_.Surrounds(p) && Block::Of(p)->is_live() && Block::Of(p)->size() != 0;
    }

    // The block at p becomes `size` bytes long where it lies; false leaves it as it was.
    bool resize(void* p, size_t size) {
      if (size > kMaxRequest) return false;
      const ReapWindow::Settle settle(window_);
      Block* b = Block::Of(p);
      const size_t bytes = Block::BytesFor(size), before = b->size();
      if (b->apart()) return bytes <= before && bytes >= before / 2;
      if (bytes > before && !Extend(b, bytes)) return false;
      const size_t over = b->size() - bytes;
      Count(b, b->size() - before);
      if (over >= Block::kLeast) Cut(b, bytes);
      return true;
    }
    // A block apart is as the heap below gave it, and moves where that can move it.
    void* remap(void* p, size_t size)
      requires Holdings::moves
    {
      if (size > kMaxRequest || !Block::Of(p)->apart()) return nullptr;
      return holdings_.AskingAtCap([&] {
        return JoiningIfShort(
            [&] { return holdings_.MoveApart(this->next_, Block::Of(p), Block::BytesFor(size)); });
      });
    }
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Below>
    {
      return Block::Of(p)->apart() && this->next_.reads_zero(Chunk::OfApart(Block::Of(p)));
    }

    void clear() {
      const ReapWindow::Settle settle(window_);
      holdings_.GiveBackAllApart(this->next_);
      window_.used = 0;
      StartAnew();
    }
    void forget() {
      const ReapWindow::Settle settle(window_);
      holdings_.Forget();
      window_.used = 0;
      StartAnew();
      Over<Below>::forget();
    }

    // The next chunk is large enough for so many bytes, as far as chunks go. A hint: no memory, no
    // chunk.
    void reserve(size_t bytes) {
      const ReapWindow::Settle settle(window_);
      if (bytes > kMost - Holdings::kOverhead) bytes = kMost - Holdings::kOverhead;
      Join();
      if (bytes > window_.room()) NewChunk(RoundUp(bytes, Block::kUnit));
    }

    // 0: none. The function is asked by allocate only, not for what is just reserved.
    void set_cap(size_t bytes, CapFunction reached = nullptr, void* context = nullptr) {
      holdings_.set_cap(Cap(bytes, reached, context));
    }
    size_t cap() const { return holdings_.cap().bytes(); }
    // How many bytes more the last allocation, which got null, had to take; 0 where it was not the
    // cap that stood in the way. For a cap without a function.
    size_t refused_by_cap() const { return holdings_.refused(); }

    // All requests take the slow path: for a heap that is used under a lock, and asked without.
    void shut_window() { window_.shut = true; }

    // Who is named in the chunks taken from now on, for owner_at().
    void set_owner(void* owner) { holdings_.set_owner(owner); }
    // The owner of the reap that has its chunk at `start`, where a block of the heap below begins
    // that is at least as large as a chunk's header; null if it is not a reap's.
    static void* owner_at(const void* start) { return Chunk::OwnerAt(start); }
    // Bytes in blocks with their tags, and in the gap in front of an aligned block apart.
    size_t used() const { return window_.used_now() + holdings_.apart_bytes(); }
    // The most that a block for `size` bytes can add to used(); not above kMaxRequest.
    static constexpr size_t most_for(size_t size, size_t align = alignment) {
      const size_t bytes =
          Block::BytesFor(align <= alignment ? size : size + align + Block::kLeast);
      return bytes > Holdings::kApart ? Holdings::ApartBytes(bytes)
                                      : bytes + Block::kLeast - Block::kUnit;
    }
    // Whether p lies in the chunk taken last, and where that begins then. For chunks that start_of
    // knows.
    bool in_newest_chunk(const void* p) const { return newest_chunk_around(p) != nullptr; }
    void* newest_chunk_around(const void* p) const {
      Chunk* c = holdings_.newest();
      return c != nullptr && c->Surrounds(p) ? c : nullptr;
    }
    size_t held() const { return holdings_.held(); }  // bytes taken from below, which the cap is on
    bool bumping() const { return finder_.empty() && !AnyWaits(); }

   private:
    static constexpr size_t kMostWaiting = kMost / 2;

    // Null: it is not known, or the heap below does not know now.
    Chunk* ChunkOf(Block* b) {
      if constexpr (kLeadsToChunks) {
        if (in_newest_chunk(b)) return holdings_.newest();
        return Chunk::At(this->next_.start_of(b));
      }
      return nullptr;
    }
    // So many bytes more are used, at b. Returns its chunk.
    Chunk* Count(Block* b, size_t bytes) {
      window_.used += bytes;
      Chunk* c = ChunkOf(b);
      if (c != nullptr) c->live += static_cast<uint32_t>(bytes);
      return c;
    }
    // So many less, and they are a hole.
    void CountHole(Block* b, size_t bytes) {
      if (Chunk* c = Count(b, 0 - bytes)) c->has_holes = true;
    }

    [[gnu::noinline]] void* AllocateSlow(size_t size) {
      if (size > kMaxRequest) return Impossible();
      const size_t bytes = Block::BytesFor(size);
      return holdings_.AskingAtCap([&] { return Find(bytes); });
    }
    void* Impossible() {
      holdings_.NoneRefused();
      return nullptr;
    }

    void* Find(size_t bytes) {
      if (bytes > Holdings::kApart)
        return JoiningIfShort([&] { return holdings_.TakeApart(this->next_, bytes); });
      const ReapWindow::Settle settle(window_);
      if (bytes <= window_.room()) return window_.Take(bytes);
      // Not all of what waits at once: it may be a million blocks.
      do {
        Join(kMostWaiting);
        if (bytes <= window_.room()) return window_.Take(bytes);
        if (Block* b = finder_.Take(bytes)) return BumpIn(b, bytes);
      } while (AnyWaits());
      return NewChunk(bytes) ? window_.Take(bytes) : nullptr;
    }

    // In a free block, of which the rest is the window from now on if that is worth it. Requests of
    // all sizes are laid through a window, so a hole of a few blocks is better left to the best
    // fit.
    void* BumpIn(Block* b, size_t bytes) {
      const size_t whole = b->size();
      const size_t over = whole - bytes;
      if (over >= Block::kLeast && (over <= window_.room() || over < 32 * bytes)) {
        // The rest's neighbours are in use, as those of the whole were.
        b->SetNewest(bytes);
        Count(b, bytes);
        Block* rest = b->After();
        rest->SetFree(over);
        finder_.Add(rest);
        return b;
      }
      b->SetInUse(whole, Block::Neighbour::kInUse);
      Chunk* const c = Count(b, over < Block::kLeast ? whole : bytes);
      if (over < Block::kLeast) return b;
      b->SetNewest(bytes);
      MoveWindow(c, b->After(), b->At(static_cast<ptrdiff_t>(whole)));
      return b;
    }

    // `chunk`: where that is known.
    void MoveWindow(Chunk* chunk, Block* edge, Block* end) {
      char* const old_edge = std::exchange(window_.edge, reinterpret_cast<char*>(edge));
      char* const old_end = std::exchange(window_.end, reinterpret_cast<char*>(end));
      Chunk* const left = std::exchange(window_.chunk, chunk);
      const bool only_waits = left != nullptr && left != chunk && left->OnlyWaits();
      PutAway(old_edge, old_end);
      if (only_waits) Drop(left);
    }

    // What is left of a window that is no longer one. A rest too small for a block stays until the
    // block in front of it is freed.
    void PutAway(char* edge, char* end) {
      if (edge == end) return;
      auto* rest = reinterpret_cast<Block*>(edge);
      const auto left = static_cast<size_t>(end - edge);
      rest->SetInUse(left, Block::Neighbour::kInUse);
      if (left < Block::kLeast) return;
      rest->SetGone();
      Free(rest, left);
    }

    // --- Blocks

    bool AnyWaits() const { return !waiting_.empty() || SomeWaitInChunks(); }
    bool SomeWaitInChunks() const { return kLeadsToChunks && holdings_.with_waiting() != nullptr; }
    // b, which is live, goes. A chunk goes with its last block, as it is.
    [[gnu::noinline]] void FreeIn(Chunk* c, Block* b) {
      if (b->apart()) [[unlikely]]
        return holdings_.GiveBackApart(this->next_, b);
      const ReapWindow::Settle settle(window_);
      const size_t bytes = b->size();
      if (reinterpret_cast<char*>(b) + bytes == window_.edge && b->previous_in_use()) {
        window_.TakeBack(b);
      } else {
        window_.used -= bytes;
        Wait(c, b, bytes);
      }
      if (window_.used == 0) return StartAnew();
      if (c->live == 0 && c != window_.chunk) Drop(c);
    }
    [[gnu::always_inline]] void Wait(Chunk* c, Block* b, size_t bytes) {
      c->live -= static_cast<uint32_t>(bytes);
      if (c->waiting == nullptr) holdings_.HasWaiting(c);
      WaitingBlocks::Add(c->waiting, b);
    }
    // Blocks of the chunk wait, and none is live: only what the finder has must be told.
    void Drop(Chunk* c) {
      c->ForEachHole([&](Block* b) { finder_.Remove(b); });
      holdings_.HasNoneWaiting(c);
      holdings_.GiveBackChunk(this->next_, c);
    }

    // One block that waits may keep its chunk: before a request is refused, none does.
    template <class F>
    void* JoiningIfShort(F take) {
      void* p = take();
      if (p != nullptr || !AnyWaits()) return p;
      JoinNow();
      return take();
    }
    [[gnu::noinline]] void JoinNow() {
      const ReapWindow::Settle settle(window_);
      window_.used == 0 ? StartAnew() : Join();
    }
    // Chunk by chunk, until nothing waits or so much is joined.
    void Join(size_t enough = SIZE_MAX) {
      JoinAll(waiting_.TakeAll());
      for (size_t joined = 0; SomeWaitInChunks() && joined < enough;)
        joined += JoinIn(holdings_.with_waiting());
    }
    // Returns how many bytes waited there.
    size_t JoinIn(Chunk* c) {
      if (c->waiting == nullptr) return 0;
      holdings_.HasNoneWaiting(c);
      c->has_holes = true;
      return JoinAll(std::exchange(c->waiting, nullptr));
    }
    size_t JoinAll(Block* list) {
      return WaitingBlocks::ForEachRun(list, [&](Block* run, size_t bytes) { Free(run, bytes); });
    }

    // b's used bytes are counted as gone already. Its neighbours, where free, join it.
    void Free(Block* b, size_t bytes) {
      if (!b->previous_in_use()) {
        Block* before = b->Before();
        bytes += before->size();
        finder_.Remove(before);
        b = before;
      }
      Block* after = b->At(static_cast<ptrdiff_t>(bytes));
      if (reinterpret_cast<char*>(after) != window_.edge && after->is_scrap()) {
        bytes += Block::kUnit;
        after = after->At(Block::kUnit);
      }
      if (reinterpret_cast<char*>(after) == window_.edge) {
        window_.edge = reinterpret_cast<char*>(b);
        return;
      }
      if (!after->in_use()) {
        bytes += after->size();
        finder_.Remove(after);
      }
      b->SetFree(bytes);
      if (b->After()->is_end() && holdings_.GaveBackChunkOf(this->next_, b)) return SetFew();
      finder_.Add(b);
    }

    // b is in use; what it has beyond `bytes` becomes free.
    void Cut(Block* b, size_t bytes) {
      const size_t over = b->size() - bytes;
      Block* rest = b->At(static_cast<ptrdiff_t>(bytes));
      SetSize(rest, over, Block::Neighbour::kInUse);
      SetSize(b, bytes, b->previous_state());
      CountHole(b, over);
      rest->SetGone();
      Free(rest, over);
    }

    // At the edge there is no next block to tell.
    void SetSize(Block* b, size_t bytes, Block::Neighbour before) {
      if (reinterpret_cast<char*>(b) + bytes == window_.edge && before != Block::Neighbour::kFree) {
        b->SetNewest(bytes);
      } else {
        b->SetInUse(bytes, before);
      }
    }

    bool Extend(Block* b, size_t bytes) {
      JoinAll(waiting_.TakeAll());  // what follows may wait
      if (Chunk* c = ChunkOf(b)) JoinIn(c);
      Block* after = b->After();
      if (reinterpret_cast<char*>(after) == window_.edge) {
        const size_t more = bytes - b->size();
        if (more > window_.room()) return false;
        window_.edge += more;
        b->SetInUse(bytes, b->previous_state());
        return true;
      }
      if (after->in_use() || b->size() + after->size() < bytes) return false;
      finder_.Remove(after);
      b->SetInUse(b->size() + after->size(), b->previous_state());
      return true;
    }

    // Where the next aligned place of the window has room: what lies in front of it becomes free,
    // and blocks of nearly their alignment lie one behind another. Null where it has none.
    [[gnu::noinline]] void* AlignInWindow(size_t size, size_t align) {
      const ReapWindow::Settle settle(window_);
      const size_t bytes = Block::BytesFor(size);
      const size_t over = (0 - reinterpret_cast<uintptr_t>(window_.edge)) & (align - 1);
      if (bytes > Holdings::kApart || bytes > window_.room() || over > window_.room() - bytes)
        return nullptr;
      if (over == Block::kUnit) {
        reinterpret_cast<Block*>(window_.edge)->SetNewest(over);  // a scrap
        window_.edge += over;
        return window_.Take(bytes);
      }
      auto* b = static_cast<Block*>(window_.Take(over + bytes));
      return over == 0 ? b : AlignWithin(b, over, bytes);
    }

    // Cuts `over` bytes off the front of b, and what is beyond `bytes` off its end.
    void* AlignWithin(Block* b, size_t over, size_t bytes) {
      Block* inner = b->At(static_cast<ptrdiff_t>(over));
      if (b->apart()) {
        inner->SetApart(b->size() - over, b->apart_offset() + over);
        return inner;
      }
      SetSize(inner, b->size() - over, Block::Neighbour::kInUse);
      SetSize(b, over, b->previous_state());
      CountHole(b, over);
      b->SetGone();
      Free(b, over);
      if (inner->size() - bytes >= Block::kLeast) Cut(inner, bytes);
      return inner;
    }

    // --- Chunks

    // What the bump leaves of its chunk becomes a free block, or waste until the next clear.
    bool NewChunk(size_t bytes) {
      const size_t in_holes =
          holdings_.held() - holdings_.apart_bytes() - window_.used - window_.room();
      Chunk* c = holdings_.Grow(this->next_, bytes, in_holes);
      if (c == nullptr) return false;
      SetFew();
      MoveWindow(holdings_.newest(), c->first(), c->end());
      return true;
    }

    // What waits is few bytes, but each block may keep a chunk. So nothing waits where more than
    // a quarter of what is used, and a chunk, is not: held - used > used / 4 + kMost.
    void SetFew() {
      if constexpr (kLeadsToChunks) return;  // each chunk's last block is noticed
      const size_t in_chunks = holdings_.held() - holdings_.apart_bytes();
      window_.few = in_chunks <= kMost ? 0 : (in_chunks - kMost) / 5 * 4;
    }
    // A region again, in the one chunk that is kept.
    void StartAnew() {
      Chunk* kept = holdings_.GiveBackButOne(this->next_);
      finder_.Clear();
      waiting_.Clear();
      window_.chunk = holdings_.newest();
      window_.edge = kept == nullptr ? nullptr : reinterpret_cast<char*>(kept->first());
      window_.end = kept == nullptr ? nullptr : reinterpret_cast<char*>(kept->end());
      SetFew();
    }

    ReapWindow window_;      // first, for the copy of the fast path in strata/reap.h
    WaitingBlocks waiting_;  // whose chunk is not known
    Finder finder_;
    Holdings holdings_;
  };
};

}  // namespace strata::layers
