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

// Neighbours join late, as in Lea's fast bins: what is freed waits until the window is used up or a
// quarter of the largest chunk waits, for most regions end before that and never pay for it.
//
// A request that is large for a chunk gets memory of its own, which goes back when it is freed. A
// cap bounds what is held; one that is reached asks a function, which may raise it, free blocks of
// the heap instead, or throw; it must not end the heap.
//
// Chunks start at kFirst bytes and double up to kMost. The finder that is there if none is named
// has trees for holes up to that only: there may be many reaps.
template <size_t kFirst = 8 << 10, size_t kMost = 1 << 20, class Finder = BasicTreeFit<Log2(kMost)>>
struct Reap {
  static_assert(IsPowerOfTwo(kFirst) && IsPowerOfTwo(kMost) && kFirst >= 4096 && kFirst <= kMost,
                "Reap: chunks from one power of two, at least 4096, up to another");

  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= 16, "Reap needs a heap aligned to 16 bytes");
    using Block = TaggedBlock;
    using Chunk = ReapChunk;
    using Holdings = ReapHoldings<kFirst, kMost, Below>;

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
      if (size > kMaxRequest - align - 2 * Block::kLeast) return Impossible();
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
      const size_t bytes = b->size();
      if (static_cast<char*>(p) + bytes == window_.edge_now() && b->previous_in_use()) {
        window_.StepBackTo(b);
      } else {
        window_.used -= bytes;
        if (waiting_.Add(b, bytes) > kMostWaiting) [[unlikely]]
          JoinNow();
      }
      if (used_in_chunks() <= window_.few) [[unlikely]]
        FewAreUsed();
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    // With the window shut, for any p of a chunk's: the block there goes if it is live and not the
    // newest, and nothing is to be joined or given back for it. Calls nothing. How many bytes went;
    // 0, with nothing done: deallocate() may be for it.
    [[gnu::always_inline]] size_t set_aside(void* p) {
      Block* b = Block::Of(p);
      const size_t bytes = b->SizeIfLiveInChunk();
      const size_t left = window_.used - bytes;
      if (bytes == 0 || left <= window_.few || left > window_.used) [[unlikely]]
        return 0;
      char* const after = static_cast<char*>(p) + bytes;
      if (window_.Surrounds(p) || after == window_.edge || waiting_.bytes() + bytes > kMostWaiting)
          [[unlikely]]
        return 0;
      window_.used = left;
      waiting_.Add(b, bytes);
      return bytes;
    }
    size_t size_of(void* p) { return Block::Of(p)->size() - Block::kTag; }

    // False: the block at p was freed before. Catches a second free unless new blocks have been
    // laid over the place.
    bool is_live(void* p) const {
      if (window_.Surrounds(p)) return false;
      return Block::Of(p)->is_live() && Block::Of(p)->size() != 0;
    }

    // For any p; false for what is live elsewhere.
    bool is_live_in_newest_chunk(void* p) const {
      return reinterpret_cast<uintptr_t>(p) % alignment == 0 && in_newest_chunk(p) && is_live(p);
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
      window_.used += b->size() - before;
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
    // Bytes in blocks, with their tags; with the gap in front of an aligned block apart.
    size_t used() const { return used_in_chunks() + holdings_.apart_bytes(); }
    // The most that a block for `size` bytes can add to used(); not above kMaxRequest.
    static constexpr size_t most_for(size_t size, size_t align = alignment) {
      const size_t bytes =
          Block::BytesFor(align <= alignment ? size : size + align + Block::kLeast);
      return bytes > Holdings::kApart ? Holdings::ApartBytes(bytes)
                                      : bytes + Block::kLeast - Block::kUnit;
    }
    // Whether p lies in the chunk taken last.
    bool in_newest_chunk(const void* p) const {
      return holdings_.newest() != nullptr && holdings_.newest()->Surrounds(p);
    }
    bool begins_chunk(const char* p) const {
      return holdings_.newest() != nullptr &&
             reinterpret_cast<const char*>(holdings_.newest()->first()) == p;
    }
    size_t held() const { return holdings_.held(); }  // bytes taken from below, which the cap is on
    bool bumping() const { return finder_.empty() && waiting_.empty(); }

   private:
    static constexpr size_t kMostWaiting = kMost / 2;

    size_t used_in_chunks() const { return window_.used_now(); }

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
      Join();
      if (bytes <= window_.room()) return window_.Take(bytes);
      if (Block* b = finder_.Take(bytes)) return BumpIn(b, bytes);
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
        window_.used += bytes;
        Block* rest = b->After();
        rest->SetFree(over);
        finder_.Add(rest);
        return b;
      }
      b->SetInUse(whole, true);
      window_.used += whole;
      if (over < Block::kLeast) return b;
      char* const old_edge = std::exchange(window_.edge, reinterpret_cast<char*>(b) + bytes);
      char* const old_end = std::exchange(window_.end, window_.edge + over);
      b->SetNewest(bytes);
      window_.used -= over;
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

    // One block that waits keeps its chunk: before a request is refused, none does.
    template <class F>
    void* JoiningIfShort(F take) {
      void* p = take();
      if (p != nullptr || waiting_.empty()) return p;
      JoinNow();
      return take();
    }
    [[gnu::noinline]] void JoinNow() {
      const ReapWindow::Settle settle(window_);
      Join();
    }
    // Blocks are often freed in the order in which they lie, or against it: what lies together is
    // freed together.
    void Join() {
      Block* run = nullptr;
      size_t bytes = 0;
      waiting_.TakeAll([&](Block* b) {
        const size_t more = b->size();
        const bool in_front = b->At(static_cast<ptrdiff_t>(more)) == run;
        if (!in_front && (run == nullptr || run->At(static_cast<ptrdiff_t>(bytes)) != b)) {
          if (run != nullptr) Free(run, bytes);
          run = b;
          bytes = 0;
        } else if (in_front) {
          run = b;
        }
        b->SetGone();  // not before what lies beyond a scrap was freed
        bytes += more;
      });
      if (run != nullptr) Free(run, bytes);
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
      if (reinterpret_cast<char*>(after) != window_.edge && IsScrap(after)) {
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
      SetSize(rest, over, true);
      SetSize(b, bytes, b->previous_in_use());
      window_.used -= over;
      rest->SetGone();
      Free(rest, over);
    }

    // At the edge there is no next block to tell.
    void SetSize(Block* b, size_t bytes, bool previous_used) {
      if (reinterpret_cast<char*>(b) + bytes == window_.edge && previous_used) {
        b->SetNewest(bytes);
      } else {
        b->SetInUse(bytes, previous_used);
      }
    }

    bool Extend(Block* b, size_t bytes) {
      Join();  // what follows may wait
      Block* after = b->After();
      if (reinterpret_cast<char*>(after) == window_.edge) {
        const size_t more = bytes - b->size();
        if (more > window_.room()) return false;
        window_.edge += more;
        b->SetInUse(bytes, b->previous_in_use());
        return true;
      }
      if (after->in_use() || b->size() + after->size() < bytes) return false;
      finder_.Remove(after);
      b->SetInUse(b->size() + after->size(), b->previous_in_use());
      return true;
    }

    // Where the next aligned place of the window has room: what lies in front of it becomes free,
    // and blocks of nearly their alignment lie one behind another. Null where it has none.
    [[gnu::noinline]] void* AlignInWindow(size_t size, size_t align) {
      const ReapWindow::Settle settle(window_);
      const size_t bytes = Block::BytesFor(size);
      size_t over = (0 - reinterpret_cast<uintptr_t>(window_.edge)) & (align - 1);
      // A scrap at the start of a chunk joins none, and the chunk would stay.
      if (over == Block::kUnit && begins_chunk(window_.edge)) over += align;
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
      SetSize(inner, b->size() - over, true);
      SetSize(b, over, b->previous_in_use());
      window_.used -= over;
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
      char* const old_edge = std::exchange(window_.edge, reinterpret_cast<char*>(c->first()));
      char* const old_end = std::exchange(window_.end, reinterpret_cast<char*>(c->end()));
      SetFew();
      PutAway(old_edge, old_end);
      return true;
    }

    // What waits is few bytes, but each block may keep a chunk. So nothing waits where more than
    // a quarter of what is used, and a chunk, is not: held - used > used / 4 + kMost.
    void SetFew() {
      const size_t in_chunks = holdings_.held() - holdings_.apart_bytes();
      window_.few = in_chunks <= kMost ? 0 : (in_chunks - kMost) / 5 * 4;
    }
    [[gnu::noinline]] void FewAreUsed() {
      const ReapWindow::Settle settle(window_);
      if (window_.used == 0) return StartAnew();
      Join();
    }
    // A region again, in the one chunk that is kept.
    void StartAnew() {
      Chunk* kept = holdings_.GiveBackButOne(this->next_);
      finder_.Clear();
      waiting_.Clear();
      window_.edge = kept == nullptr ? nullptr : reinterpret_cast<char*>(kept->first());
      window_.end = kept == nullptr ? nullptr : reinterpret_cast<char*>(kept->end());
      SetFew();
    }

    ReapWindow window_;  // first, for the copy of the fast path in strata/reap.h
    WaitingBlocks waiting_;
    Finder finder_;
    Holdings holdings_;
  };
};

}  // namespace strata::layers
