// A random program on a Reap over a KnowingMmap, driven by bytes (a fuzzer's, or a seed's), with a
// model of what its blocks hold. Frees come by every way that the process has; the source knows of
// all of its blocks, of none, or of some.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "../hugepage/program_bytes.h"
#include "knowing_source.h"
#include "strata/layers/detail/boundary_tag.h"
#include "strata/layers/detail/reap_chunk.h"

namespace strata::test {

// No block is given out twice or loses its bytes, what the heap says is used is what the blocks
// take, and no chunk stays without a live block but the window's.
template <class Heap>
class ReapProgram {
  using Source = layers::KnowingMmap;
  using Tag = layers::TaggedBlock;

 public:
  explicit ReapProgram(ProgramBytes bytes)
      : bytes_(bytes),
        source_(bytes_.Below(3)),
        most_(20 + bytes_.Below(3000)),
        largest_(size_t{64} << bytes_.Below(6)),
        shut_(bytes_.Below(3) == 0) {
    if (shut_) heap_.shut_window();
  }

  void Run() {
    const Source::Forgetting guard(source_ == 1);
    for (size_t step = 0; !bytes_.done(); ++step) {
      Step(step / 1000 % 2 == 0);
      if (step % 64 == 0) Check();
    }
    while (!blocks_.empty()) {
      Free(bytes_.done() ? blocks_.size() * 7 / 11 : bytes_.Below(blocks_.size()));
      if (blocks_.size() % 16 == 0) Check();
    }
    Require(heap_.used() == 0, "nothing is used in the end");
  }

 private:
  struct Block {
    unsigned char* p;
    size_t size;
    unsigned char pattern;
  };

  static void Require(bool fine, const char* what) {
    if (fine) return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
  }

  void Step(bool grows) {
    const uint8_t what = bytes_.Byte();
    if (blocks_.empty() || what < (grows ? 135 : 80)) return Take(what);
    const size_t which = bytes_.Below(blocks_.size());
    if (what < 150) return Resize(which);
    if (what < 154) return heap_.reserve(bytes_.Below(Heap::most_chunk));
    if (what == 154) return Clear();
    if (what == 155) return SetCap();
    if (what < 158 && source_ == 2) {
      Source::knows = !Source::knows;
      return;
    }
    if (what < 185) return FreeInline();
    Free(which);
  }

  void Take(uint8_t what) {
    if (blocks_.size() >= most_) return;
    const size_t size = bytes_.Below(what % 32 == 0 ? Heap::most_chunk * 5 / 4 : largest_);
    const size_t align = what % 8 == 1 ? size_t{16} << bytes_.Below(9) : Heap::alignment;
    void* p = align == Heap::alignment ? heap_.allocate(size) : heap_.allocate(size, align);
    if (p == nullptr) return Require(heap_.cap() != 0, "null comes of the cap");
    Require(reinterpret_cast<uintptr_t>(p) % align == 0, "aligned");
    Require(heap_.size_of(p) >= size, "the block is large enough");
    blocks_.push_back({static_cast<unsigned char*>(p), size, bytes_.Byte()});
    Fill(blocks_.back());
  }
  static void Fill(const Block& b) { memset(b.p, b.pattern, b.size); }

  void Resize(size_t which) {
    Block b = Leave(which);  // a cap's function must not free it
    const size_t size = bytes_.Below(2 * b.size + 2), kept = std::min(size, b.size);
    void* to = heap_.resize(b.p, size) ? b.p
               : Tag::Of(b.p)->apart() ? heap_.remap(b.p, size)
                                       : nullptr;
    if (to == nullptr) {
      Require(Holds(b, b.size), "a refusal has changed nothing");
    } else {
      b.p = static_cast<unsigned char*>(to);
      Require(Holds(b, kept) && heap_.size_of(b.p) >= size, "what is resized keeps its bytes");
      b.size = size;
      Fill(b);
    }
    blocks_.push_back(b);
  }
  Block Leave(size_t which) {
    const Block b = blocks_[which];
    blocks_[which] = blocks_.back();
    blocks_.pop_back();
    return b;
  }

  void Clear() {
    heap_.clear();
    blocks_.clear();
    Require(heap_.used() == 0, "nothing is used after a clear");
  }

  // None, one that refuses, one whose function raises it, or one whose function frees a block.
  void SetCap() {
    const size_t kind = bytes_.Below(4);
    if (kind == 0) return heap_.set_cap(0);
    const size_t cap = heap_.held() + bytes_.Below(2 * Heap::most_chunk);
    if (kind == 1) return heap_.set_cap(cap);
    if (kind == 2) {
      return heap_.set_cap(cap,
                           [](void*, size_t held, size_t wanted, size_t) { return held + wanted; });
    }
    heap_.set_cap(
        cap,
        [](void* context, size_t, size_t, size_t now) {
          auto* program = static_cast<ReapProgram*>(context);
          if (!program->blocks_.empty()) program->Free(program->blocks_.size() / 2);
          return now;
        },
        this);
  }

  // The newest block of the model, as strata_reap_free_inline does it: also where none is left.
  void FreeInline() {
    struct Window {
      char* at;
      char* limit;
    };
    const Block b = blocks_.back();
    auto* window = reinterpret_cast<Window*>(&heap_);
    size_t& tag = reinterpret_cast<size_t*>(b.p)[-1];
    if (window->limit == nullptr || reinterpret_cast<char*>(b.p) + (tag ^ 3) != window->at)
      return Free(blocks_.size() - 1);
    Require(Holds(b, b.size), "the newest block holds its bytes");
    tag ^= 1;
    window->at = reinterpret_cast<char*>(b.p);
    blocks_.pop_back();
  }

  void Free(size_t which) {
    const Block b = Leave(which);
    Require(Holds(b, b.size), "a block holds its bytes until it is freed");
    Require(heap_.is_live(b.p), "it is live until then");
    const bool as_owner = b.pattern % 4 == 0;
    if (b.pattern % 2 == 0 && heap_.step_back(b.p)) return;
    void* start = heap_.newest_chunk_around(b.p);
    if (start == nullptr || as_owner) start = Source::start_of(b.p);
    if (start == nullptr || b.pattern % 3 == 0) return heap_.deallocate(b.p);
    if (as_owner && shut_ && heap_.set_aside(b.p, start) != 0)
      return Require(heap_.used() != 0, "the last block of all is not set aside");
    const bool apart = Tag::Of(b.p)->apart();
    Require(heap_.free_in(b.p, start), "it is live");
    Require(apart || heap_.used() != 0 || heap_.bumping(), "where nothing is used, all is as new");
  }

  static bool Holds(const Block& b, size_t bytes) {
    return std::all_of(b.p, b.p + bytes, [&](unsigned char c) { return c == b.pattern; });
  }

  void Check() {
    size_t used = 0;
    std::set<void*> live;
    for (const Block& b : blocks_) {
      Tag* tag = Tag::Of(b.p);
      used += tag->size();
      if (tag->apart()) used += tag->apart_offset() - sizeof(layers::ReapChunk);
      live.insert(Source::BlockAround(b.p));
    }
    Require(heap_.used() == used, "what is used is what the blocks take");
    Require(Source::blocks.size() <= live.size() + 1, "an empty chunk is the window's");
    size_t held = 0;
    for (const auto& [start, block] : Source::blocks) held += block.size;
    Require(heap_.held() == held, "what is held is what the source gave");
  }

  ProgramBytes bytes_;
  const size_t source_;  // that knows all, nothing, or what it gave at times
  const size_t most_;
  const size_t largest_;
  const bool shut_;
  Heap heap_;
  std::vector<Block> blocks_;
};

}  // namespace strata::test
