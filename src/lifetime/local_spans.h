// The local allocator of a thread: for each rung a span that was partly free when it was opened and
// one that was wholly free, the overflow span. Objects are laid one behind the other into runs of
// free lines, without any lock or atomic operation; what a thread counts is written into the span
// when it closes it.
// Maas et al., CACM 67(4), 2024, section 3.5, after Immix (Blackburn, McKinley, PLDI 2008). Sits in
// lifetime; lifetime_heap.h has one for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lifetime/line_span.h"

namespace strata {

// A place in an open span: the run of free lines that is being filled, and those behind it.
class SpanCursor {
 public:
  bool empty() const { return span_ == nullptr; }

  // At its first run of free lines. How many lines are free in all.
  size_t Open(LineSpan* span) {
    span_ = span;
    free_ = span->FreeLines();
    next_line_ = 0;
    at_ = end_ = 0;
    made_ = 0;
    skipped_ = false;
    NextRun();
    return free_.Count();
  }

  // bytes: a multiple of kGranule. Null: it does not fit into the rest of this run.
  STRATA_ALWAYS_INLINE void* Bump(size_t bytes) {
    if (end_ - at_ < bytes) return nullptr;
    return Lay(at_, bytes);
  }
  void* BumpAligned(size_t bytes, size_t align) {
    const uintptr_t at = RoundUp(at_, align);
    return at + bytes > end_ ? nullptr : Lay(at, bytes);
  }
  // Whether it fits into this run or a later one.
  bool HasRoom(size_t bytes, size_t align) const {
    if (empty()) return false;
    uintptr_t at = at_, end = end_;
    for (size_t line = next_line_;;) {
      if (RoundUp(at, align) + bytes <= end) return true;
      const size_t from = free_.NextSet(line);
      if (from == kLinesPerSpan) return false;
      line = free_.NextClear(from);
      at = span_->base() + from * kLineSize;
      end = span_->base() + line * kLineSize;
    }
  }
  // False: this is the last.
  bool NextRun() {
    const size_t from = free_.NextSet(next_line_);
    if (from == kLinesPerSpan) return false;
    skipped_ |= WholeLineLeft();
    next_line_ = free_.NextClear(from);
    at_ = span_->base() + from * kLineSize;
    end_ = span_->base() + next_line_ * kLineSize;
    return true;
  }

  // The base of a span in which nothing lives, for the caller to give back; else 0.
  uintptr_t Close() {
    LineSpan* span = std::exchange(span_, nullptr);
    const bool room = skipped_ || WholeLineLeft() || free_.NextSet(next_line_) < kLinesPerSpan;
    at_ = end_ = 0;
    const uintptr_t base = span->base();
    return span->Close(made_, room ? RoomLeft::kSome : RoomLeft::kNone) ? base : 0;
  }

 private:
  STRATA_ALWAYS_INLINE void* Lay(uintptr_t at, size_t bytes) {
    at_ = at + bytes;
    ++made_;
    span_->Note(at, bytes);
    return reinterpret_cast<void*>(at);
  }
  bool WholeLineLeft() const { return RoundUp(at_, kLineSize) + kLineSize <= end_; }

  LineSpan* span_ = nullptr;
  uintptr_t at_ = 0;
  uintptr_t end_ = 0;
  uint32_t made_ = 0;     // objects
  bool skipped_ = false;  // whether free lines were passed over
  size_t next_line_ = 0;  // behind this run
  Lines free_;            // when it was opened
};

// Blocks: where spans come from, a BlockHeap; home: the shard of it that is looked at first.
class LocalSpans {
 public:
  constexpr LocalSpans() = default;

  // Null: look at AllocateSlow.
  STRATA_ALWAYS_INLINE void* Allocate(size_t bytes, Rung rung) {
    Open& o = open_[rung];
    if (void* p = o.partial.Bump(bytes)) return p;
    // A small one goes on in the next free lines, a larger one in the overflow span.
    return bytes > kLineSize ? o.overflow.Bump(bytes) : nullptr;
  }

  // The partial span, then the overflow span, then new ones. Null: out of memory.
  template <class Blocks>
  void* AllocateSlow(size_t bytes, size_t align, Rung rung, size_t home, Blocks& blocks,
                     size_t* lines_reused) {
    Open& o = open_[rung];
    if (void* p = FromRuns(o.partial, bytes, align)) return p;
    if (void* p = FromRuns(o.overflow, bytes, align)) return p;
    // A partial span that only this object is too large for stays for smaller ones, until the
    // overflow span is used up.
    if (bytes <= kLineSize || !o.overflow.empty()) CloseIf(o.partial, blocks);
    if (o.partial.empty()) {
      if (LineSpan* span = blocks.TakeReusable(rung, home)) {
        *lines_reused += o.partial.Open(span);
        if (void* p = FromRuns(o.partial, bytes, align)) return p;
      }
    }
    LineSpan* span = blocks.TakeSpan(rung, home);
    if (span == nullptr) return nullptr;
    // What is left of the old one, too little for this object, serves smaller ones.
    if (o.partial.empty()) std::swap(o.partial, o.overflow);
    CloseIf(o.overflow, blocks);
    o.overflow.Open(span);
    return FromRuns(o.overflow, bytes, align);
  }

  template <class Blocks>
  void CloseAll(Blocks& blocks) {
    for (Open& o : open_) {
      CloseIf(o.partial, blocks);
      CloseIf(o.overflow, blocks);
    }
  }

 private:
  struct Open {
    SpanCursor partial;
    SpanCursor overflow;
  };

  static void* FromRuns(SpanCursor& cursor, size_t bytes, size_t align) {
    if (!cursor.HasRoom(bytes, align)) return nullptr;
    void* p = cursor.BumpAligned(bytes, align);
    while (p == nullptr && cursor.NextRun()) p = cursor.BumpAligned(bytes, align);
    return p;
  }
  template <class Blocks>
  static void CloseIf(SpanCursor& cursor, Blocks& blocks) {
    if (cursor.empty()) return;
    if (const uintptr_t dead = cursor.Close()) blocks.GiveSpan(dead);
  }

  Open open_[kRungs];
};

}  // namespace strata
