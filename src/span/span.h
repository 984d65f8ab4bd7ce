// A span: a run of pages that holds objects of one size class, or one large block. Its free bits
// are kept here, outside the objects, so that refilling touches no object and the native pages
// inside a span that is still in use can go back to the kernel. Sits in span; guarded by the lock
// of its class's central free list (a large block's by whoever owns the block).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/object_group.h"
#include "base/size_class.h"
#include "base/units.h"
#include "span/size_classes.h"

namespace strata {

// Spans that hold objects are counted in eight buckets by how many: 128 and more in 0, 64 to 127 in
// 1, … one in 7. With kFullestFirst a bucket is also a list, of those of its spans that have room.
inline constexpr size_t kOccupancyBuckets = 8;

enum class SpanState : uint8_t {
  kSmall,     // objects of a class, on a central free list or full
  kIsolated,  // the same, while native pages inside it are being given back: not on any list
  kLarge,     // one block
  kUnused,    // the record is in the pool
};

struct Span : ListNode<Span> {
  uint32_t first_page = 0;
  uint32_t num_pages = 0;
  SizeClass size_class = SizeClass::kNone;
  uint16_t objects = 0;  // capacity
  union {
    uint16_t allocated = 0;  // objects that the central list has given out
    uint16_t shift;          // kLarge: where in the first page the block begins
  };
  SpanState state = SpanState::kUnused;
  uint8_t occupancy_list = 0;  // which of the central list's lists it is on
  uint32_t last_used = 0;      // tick of the last take or give; or that it was searched since
  static constexpr uint8_t kNotSeen = 0xff;
  uint8_t seen_bucket = kNotSeen;  // occupancy at the last tick at which it held objects
  union {
    // kLarge: who had borrowed the hugepage in which it lies, from 1 on, when it was taken; 0:
    // nobody.
    uint8_t lent_to = 0;
    ObjectGroup group;  // else: whose objects it holds
  };
  uint8_t place = 0;  // in its block: SpanPool's
  uint8_t bitmap_words = 0;
  union {
    // kSmall: native pages, by bit, that were given back while the span was in use and not touched
    // since. Some may have memory again: only their hugepage knows (HugeTracker). Taking an object
    // on one of them has to be told to the page heap.
    uint64_t maybe_gone = 0;
    uint64_t requested;  // kLarge: bytes the program asked for
  };

  bool is_grouped() const { return state != SpanState::kLarge && group != ObjectGroup::kNone; }
  PageRange range() const { return {PageId(first_page), Pages(num_pages)}; }
  size_t start_offset() const { return OffsetOf(PageId(first_page)); }
  // Of the first object, from the start.
  size_t first() const { return FirstIn(InfoOf(size_class), first_page); }
  // kLarge: the offset of its block, and what that has room for.
  size_t block_offset() const { return start_offset() + shift; }
  size_t block_bytes() const { return BytesOf(range().length) - shift; }
  // Bit set: the object is free. The words follow the record itself.
  uint64_t* free_bits() { return reinterpret_cast<uint64_t*>(this + 1); }
  const uint64_t* free_bits() const { return reinterpret_cast<const uint64_t*>(this + 1); }

  bool IsFree(size_t index) const { return (free_bits()[index / 64] >> (index % 64) & 1) != 0; }
  void MarkFree(size_t index) { free_bits()[index / 64] |= uint64_t{1} << (index % 64); }
  // Sets the bits of n objects from `first` on; false, with nothing done, if one was set.
  bool MarkFree(size_t first, size_t n) {
    uint64_t* bits = free_bits();
    const size_t last = first + n - 1;
    const uint64_t head = ~uint64_t{0} << (first % 64);
    const uint64_t tail = ~uint64_t{0} >> (63 - last % 64);
    const size_t from = first / 64, to = last / 64;
    if (from == to) {
      if ((bits[from] & head & tail) != 0) return false;
      bits[from] |= head & tail;
      return true;
    }
    uint64_t seen = (bits[from] & head) | (bits[to] & tail);
    for (size_t w = from + 1; w < to; ++w) seen |= bits[w];
    if (seen != 0) return false;
    bits[from] |= head;
    for (size_t w = from + 1; w < to; ++w) bits[w] = ~uint64_t{0};
    bits[to] |= tail;
    return true;
  }

  // Clears the bits of up to n free objects, the lowest first, and calls f(first, count) with those
  // that lie side by side; returns how many there were. A new span, or one whose objects were freed
  // in order, is dealt with by the word, others object by object.
  template <class F>
  size_t TakeFree(size_t n, F f) {
    constexpr size_t kLeastRun = 8;
    uint64_t* bits = free_bits();
    size_t left = n;
    for (size_t w = 0; w < bitmap_words && left != 0; ++w) {
      uint64_t word = bits[w];
      if (word == 0) continue;
      const auto lowest = static_cast<size_t>(std::countr_zero(word));
      const auto side_by_side = static_cast<size_t>(std::countr_one(word >> lowest));
      const size_t run = side_by_side < left ? side_by_side : left;
      if (run >= kLeastRun) {
        f(w * 64 + lowest, run);
        word &= ~(~uint64_t{0} >> (64 - run) << lowest);
        left -= run;
      }
      for (; word != 0 && left != 0; word &= word - 1, --left)
        f(w * 64 + static_cast<size_t>(std::countr_zero(word)), 1);
      bits[w] = word;
    }
    return n - left;
  }

  void InitBits() {
    uint64_t* bits = free_bits();
    for (size_t w = 0; w < bitmap_words; ++w) {
      const size_t left = objects - w * 64;
      bits[w] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    }
  }
};
static_assert(sizeof(Span) == 48);

// How a block of records is divided: the words of bits that each has room for.
struct SpanBlockShape {
  size_t parts;
  size_t words[3];

  constexpr size_t OffsetOf(size_t part) const {
    size_t offset = 0;
    for (size_t i = 0; i < part; ++i) offset += sizeof(Span) + words[i] * sizeof(uint64_t);
    return offset;
  }
};
inline constexpr SpanBlockShape kSpanBlockShapes[] = {
    {3, {1, 1, 1}}, {2, {4, 4}}, {2, {8, 2}}, {1, {16}}};
inline constexpr size_t kSpanBlock = kSpanBlockShapes[3].OffsetOf(1);
static_assert(kSpanBlockShapes[0].OffsetOf(3) <= kSpanBlock &&
              kSpanBlockShapes[1].OffsetOf(2) <= kSpanBlock &&
              kSpanBlockShapes[2].OffsetOf(2) <= kSpanBlock);
// What the arena promises leaves something for the hugepage's own record.
static_assert(kSpanBlock * kPagesPerHugePage + 512 <= kHugePageSize / 44);

// Span records with room for up to 16 words of bits. They lie in blocks of one size, which hold one
// large record or several small ones; a block without live records serves any size again. So there
// are never more blocks than spans were alive at once, whatever sizes they had, and what the arena
// promises the heap suffices when the program changes the sizes it uses. RecordPool
// (base/metadata_arena.h) could promise that only with room for 16 words in each. Thread-safe.
class SpanPool {
 public:
  explicit SpanPool(MetadataArena& arena) : arena_(arena) {}

  Span* New(size_t objects) {
    const size_t words = (objects + 63) / 64;
    {
      LockHolder hold(lock_);
      Span* free = TakeFree(words);
      if (free != nullptr) return Make(free, objects, words);
    }
    void* block = arena_.Allocate(kSpanBlock, 16, MetadataUse::kHeap);
    if (block == nullptr) return nullptr;
    LockHolder hold(lock_);
    return Make(Divide(static_cast<Span*>(block), words), objects, words);
  }

  void Delete(Span* span) {
    LockHolder hold(lock_);
    span->state = SpanState::kUnused;
    span->place |= kFree;
    const size_t at = span->place & kPart;
    const Shape& shape = kShapes[(span->place & ~kFree) / (kPart + 1)];
    Span* block = PartOf(span, -PartOffset(shape, at));
    for (size_t i = 0; i < shape.parts; ++i) {
      if ((PartOf(block, PartOffset(shape, i))->place & kFree) != 0) continue;
      free_[shape.words[at]].PushFront(span);
      return;
    }
    for (size_t i = 0; i < shape.parts; ++i) {
      Span* part = PartOf(block, PartOffset(shape, i));
      if (part != span) free_[shape.words[i]].Remove(part);
    }
    whole_.PushFront(block);
  }

  Lock& lock() { return lock_; }

 private:
  // Span::place: which part of its block it is, the block's shape, and whether it is free. Nobody
  // but the pool touches it, under its lock.
  static constexpr uint8_t kPart = 3, kFree = 0x80;

  using Shape = SpanBlockShape;
  static constexpr const Shape* kShapes = kSpanBlockShapes;
  static constexpr ptrdiff_t PartOffset(const Shape& shape, size_t part) {
    return static_cast<ptrdiff_t>(shape.OffsetOf(part));
  }
  static Span* PartOf(Span* span, ptrdiff_t offset) {
    return reinterpret_cast<Span*>(reinterpret_cast<char*>(span) + offset);
  }

  static Span* Make(Span* record, size_t objects, size_t words) {
    const auto place = static_cast<uint8_t>(record->place & ~kFree);
    Span* span = ::new (record) Span();
    span->place = place;
    span->bitmap_words = static_cast<uint8_t>(words);
    span->objects = static_cast<uint16_t>(objects);
    return span;
  }

  // A record of about that size, or a part of a block that nobody uses.
  Span* TakeFree(size_t words) STRATA_REQUIRES(lock_) {
    const size_t most = words <= 1 ? 2 : words <= 4 ? 4 : 8;
    for (size_t room = 1; room <= most; room *= 2) {
      if (room < words) continue;
      if (Span* span = free_[room].PopFront()) return span;
    }
    Span* block = whole_.PopFront();
    return block == nullptr ? nullptr : Divide(block, words);
  }

  // The first part; the others are free from now on.
  Span* Divide(Span* block, size_t words) STRATA_REQUIRES(lock_) {
    const size_t s = words <= 1 ? 0 : words <= 4 ? 1 : words <= 8 ? 2 : 3;
    for (size_t i = kShapes[s].parts; i-- > 0;) {
      Span* part = ::new (PartOf(block, PartOffset(kShapes[s], i))) Span();
      part->place = static_cast<uint8_t>(s * (kPart + 1) + i) | kFree;
      if (i != 0) free_[kShapes[s].words[i]].PushFront(part);
    }
    return block;
  }

  MetadataArena& arena_;
  Lock lock_{LockRank::kMetadata};
  IntrusiveList<Span> free_[9] STRATA_GUARDED_BY(lock_);  // by the words they have room for
  IntrusiveList<Span> whole_ STRATA_GUARDED_BY(lock_);    // blocks
};

// A few records without bits, kept for the next blocks of one owner, whose lock guards it. The rest
// go back to the pool, so that no owner keeps what others need.
class SpanCache {
 public:
  explicit SpanCache(SpanPool& pool) : pool_(pool) {}

  Span* New() {
    Span* span = kept_.PopFront();
    if (span == nullptr) return pool_.New(0);
    --count_;
    span->lent_to = 0;
    return span;
  }
  void Delete(Span* span) {
    if (count_ == kMost) return pool_.Delete(span);
    span->state = SpanState::kUnused;
    kept_.PushFront(span);
    ++count_;
  }

 private:
  static constexpr size_t kMost = 32;

  SpanPool& pool_;
  IntrusiveList<Span> kept_;
  size_t count_ = 0;
};

}  // namespace strata
