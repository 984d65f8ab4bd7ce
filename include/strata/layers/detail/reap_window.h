// The window through which a Reap hands out memory: from its edge to its end, block after block,
// each with its tag in front. The fast path moves one pointer and nothing else, so that it may
// stand in line in a program (strata/reap.h); what that moved is settled before anything else.
#pragma once

#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/detail/reap_chunk.h"
#include "strata/layers/heap.h"

namespace strata::layers {

struct ReapWindow {
  using Block = TaggedBlock;
  class Settle;

  // A block from the window alone; false where the window is too small or closed.
  [[gnu::always_inline]] bool Bump(size_t size, void** p) {
    const size_t bytes = Block::BytesFor(size);
    auto* b = reinterpret_cast<Block*>(at);
    if (bytes > static_cast<size_t>(limit - at) || size > kMaxRequest) [[unlikely]]
      return false;
    b->SetNewest(bytes);
    at += bytes;
    *p = b;
    return true;
  }
  // The newest block goes if p is that and no larger than `most`; false for any other p, and where
  // so little is used without it that the reap has to look at what it holds.
  [[gnu::always_inline]] bool StepBack(void* p, size_t most) {
    const auto bytes = static_cast<size_t>(at - static_cast<char*>(p));
    if (bytes - Block::kLeast > most || !Block::Of(p)->HasTagOfNewest(bytes)) return false;
    if (used + static_cast<size_t>(static_cast<char*>(p) - edge) <= few) [[unlikely]]
      return false;
    Block::Of(p)->SetGone();
    at = static_cast<char*>(p);
    return true;
  }

  // --- Between the fast path's calls, open or closed

  char* edge_now() const { return limit == nullptr ? edge : at; }
  size_t used_now() const { return used + static_cast<size_t>(edge_now() - edge); }
  bool Surrounds(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - edge_now()) <
           static_cast<size_t>(end - edge_now());
  }
  // b, which ends at the edge, goes.
  void StepBackTo(Block* b) {
    b->SetGone();
    if (limit != nullptr) {
      at = reinterpret_cast<char*>(b);
    } else {
      Count(0 - b->size());
      edge = reinterpret_cast<char*>(b);
    }
  }
  // So many bytes more are used in it.
  void Count(size_t bytes) {
    used += bytes;
    if (chunk != nullptr) chunk->live += static_cast<uint32_t>(bytes);
  }

  // --- Settled

  void TakeBack(Block* b) {  // as StepBackTo
    b->SetGone();
    Count(0 - b->size());
    edge = reinterpret_cast<char*>(b);
  }
  size_t room() const { return static_cast<size_t>(end - edge); }
  void* Take(size_t bytes) {  // at most room()
    auto* b = reinterpret_cast<Block*>(edge);
    b->SetNewest(bytes);
    edge += bytes;
    Count(bytes);
    return b;
  }

  // Both null while the window is closed. The first two words, for the copy in strata/reap.h.
  char* at = nullptr;     // where the next block's payload will be
  char* limit = nullptr;  // end
  char* edge = nullptr;   // at, as of the last call that was not the fast path's
  size_t used = 0;        // of the whole reap, up to edge; a free lowers it without settling
  size_t few = 0;         // a free after which no more is used may make chunks go
  char* end = nullptr;
  bool shut = false;           // closed for good
  ReapChunk* chunk = nullptr;  // that it lies in, where that is known
};

// Around everything but the fast paths, which only move `at` and, for a free, lower `used`.
class ReapWindow::Settle {
 public:
  explicit Settle(ReapWindow& window) : window_(window) {
    if (window.limit == nullptr) return;
    window.Count(static_cast<size_t>(window.at - window.edge));
    window.edge = window.at;
  }
  ~Settle() {
    if (window_.shut) return;
    window_.at = window_.edge;
    // Seldom. Stored with `at` it would make one move of 16 bytes, which waits for the stores to
    // what it loads.
    if (window_.limit != window_.end) window_.limit = window_.end;
  }
  Settle(const Settle&) = delete;
  Settle& operator=(const Settle&) = delete;

 private:
  ReapWindow& window_;
};

}  // namespace strata::layers
