// A span: a run of pages that holds objects of one size class, or one large block. Its free bits
// are kept here, outside the objects, so that refilling touches no object and the native pages
// inside a span that is still in use can go back to the kernel. Sits in span; guarded by the lock
// of its class's central free list (a large block's by whoever owns the block).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
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
  SpanState state = SpanState::kUnused;
  uint8_t occupancy_list = 0;  // which of the central list's lists it is on
  uint8_t bitmap_words = 0;
  uint16_t objects = 0;    // capacity
  uint16_t allocated = 0;  // objects that the central list has given out
  uint32_t last_used = 0;  // tick of the last take or give; kLarge: see lent_to
  static constexpr uint8_t kNotSeen = 0xff;
  uint8_t seen_bucket = kNotSeen;  // occupancy at the last tick at which it held objects
  // kLarge: whose hugepage it lies in, from 1 on, if that was lent in the round `last_used` and has
  // not been returned since; 0: the page heap's.
  uint8_t lent_to = 0;
  // kSmall: native pages of the span that were given back while it was in use, by bit.
  // kLarge: the bytes the program asked for.
  uint64_t released_or_asked = 0;

  PageRange range() const { return {PageId(first_page), Length(num_pages)}; }
  size_t start_offset() const { return OffsetOf(PageId(first_page)); }
  // Bit set: the object is free. The words follow the record itself.
  uint64_t* free_bits() { return reinterpret_cast<uint64_t*>(this + 1); }
  const uint64_t* free_bits() const { return reinterpret_cast<const uint64_t*>(this + 1); }
  uint64_t native_released() const { return state == SpanState::kLarge ? 0 : released_or_asked; }

  void InitBits() {
    uint64_t* bits = free_bits();
    for (size_t w = 0; w < bitmap_words; ++w) {
      const size_t left = objects - w * 64;
      bits[w] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    }
  }
};
static_assert(sizeof(Span) == 48);

// Span records with room for 1, 2, 4, 8 or 16 words of bits, recycled by size. Thread-safe.
class SpanPool {
 public:
  explicit SpanPool(MetadataArena& arena) : arena_(arena) {}

  Span* New(size_t objects) {
    const size_t bucket = BucketOf(objects);
    void* p;
    {
      LockHolder hold(lock_);
      p = free_[bucket];
      if (p != nullptr) {
        free_[bucket] = free_[bucket]->list_next;
      }
    }
    if (p == nullptr) p = arena_.Allocate(sizeof(Span) + (size_t{8} << bucket), 16);
    if (p == nullptr) return nullptr;
    Span* span = ::new (p) Span();
    span->bitmap_words = static_cast<uint8_t>(objects == 0 ? 0 : (objects + 63) / 64);
    span->objects = static_cast<uint16_t>(objects);
    return span;
  }

  void Delete(Span* span) {
    const size_t bucket = BucketOf(span->objects);
    span->state = SpanState::kUnused;
    LockHolder hold(lock_);
    span->list_next = free_[bucket];
    free_[bucket] = span;
  }

  Lock& lock() { return lock_; }

 private:
  static constexpr size_t kBuckets = 5;

  static size_t BucketOf(size_t objects) {
    size_t bucket = 0;
    while ((size_t{64} << bucket) < objects) ++bucket;
    return bucket;
  }

  MetadataArena& arena_;
  Lock lock_{LockRank::kPageHeap};
  Span* free_[kBuckets] STRATA_GUARDED_BY(lock_) = {};
};

}  // namespace strata
