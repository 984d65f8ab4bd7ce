// Where all metadata comes from: a bump arena over memory taken straight from the kernel, and pools
// of fixed-size records on top of it. Nothing is ever given back; every byte is counted, so that
// the statistics add up to what is resident. Sits in base and takes its memory from a function, so
// tests can hand it a buffer or make it fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/check.h"
#include "base/lock.h"
#include "base/units.h"

namespace strata {

// What the records of a heap of so many bytes may come to, whatever it holds: each page a span of
// its own (span/span.h), each hugepage a tracker; the central list of each class, and some records
// that free lists hold back.
inline size_t MetadataFor(size_t heap_bytes) { return heap_bytes / 44 + (288 << 10); }

// Whom a record is for. Those that describe the heap's memory may use what EnsureHeapTotal set
// aside; all others must not.
enum class MetadataUse : uint8_t { kOther, kHeap };

// Thread-safe. Allocate returns zeroed memory, or null when the kernel refuses.
class MetadataArena {
 public:
  using MapFunction = void* (*)(size_t bytes);  // zeroed, page-aligned memory or null

  constexpr explicit MetadataArena(MapFunction map) : map_(map) {}

  void* Allocate(size_t bytes, size_t align = 16, MetadataUse use = MetadataUse::kOther) {
    LockHolder hold(lock_);
    if (bytes + align > kChunk / 4) return AllocateApart(bytes, align);
    const bool heap = use == MetadataUse::kHeap;
    const bool may =
        heap || bytes + align + Promised() + LostAtEnds() <= end_ - next_ + spare_bytes_;
    if ((!may || !Fits(bytes, align)) && !(may && UseSpare(bytes, align)) && !NewChunk(kChunk))
      return nullptr;
    const uintptr_t at = RoundUp(next_, align);
    next_ = at + bytes;
    if (heap) heap_bytes_ += bytes;
    Add(used_, bytes);
    return reinterpret_cast<void*>(at);
  }

  // Makes sure that records of the heap of `total` bytes, counting those already made, need nothing
  // more from the kernel. Called before the heap takes address space that such records will
  // describe, so that the heap can't starve its own tables.
  bool EnsureHeapTotal(size_t total) {
    LockHolder hold(lock_);
    if (total <= heap_total_) return true;
    const size_t wanted = (total > heap_bytes_ ? total - heap_bytes_ : 0) + LostAtEnds();
    const size_t have = end_ - next_ + spare_bytes_;
    if (wanted > have && !NewChunk(RoundUp(wanted - have, kChunk))) return false;
    heap_total_ = total;
    return true;
  }

  template <class T>
  T* New() {
    void* p = Allocate(sizeof(T), alignof(T));
    return p == nullptr ? nullptr : ::new (p) T();
  }

  size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  size_t mapped_bytes() const { return mapped_.load(std::memory_order_relaxed); }
  Lock& lock() { return lock_; }

 private:
  static constexpr size_t kChunk = 256 << 10;
  static constexpr size_t kLeastSpare = 256;  // less is not worth a touched page

  // Heads a piece of memory that is not in use yet.
  struct Spare {
    Spare* next;
    size_t bytes;
  };

  static void Add(std::atomic<size_t>& n, size_t by) {  // under lock_
    n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  size_t Promised() const STRATA_REQUIRES(lock_) {
    return heap_total_ > heap_bytes_ ? heap_total_ - heap_bytes_ : 0;
  }
  // At the end of each piece, a new one among them, the next of the heap's records may not fit.
  size_t LostAtEnds() const STRATA_REQUIRES(lock_) { return (spares_ + 2) * kLeastSpare; }
  bool Fits(size_t bytes, size_t align) const STRATA_REQUIRES(lock_) {
    return next_ != 0 && RoundUp(next_, align) + bytes <= end_;
  }

  // A fresh chunk becomes the current one; what is left of the old one is kept for later.
  bool NewChunk(size_t bytes) STRATA_REQUIRES(lock_) {
    void* fresh = map_(bytes);
    if (fresh == nullptr) return false;
    Add(mapped_, bytes);
    KeepRest();
    next_ = reinterpret_cast<uintptr_t>(fresh);
    end_ = next_ + bytes;
    return true;
  }

  // The first piece that is large enough becomes the current chunk. There are about as many as
  // times that the heap grew.
  bool UseSpare(size_t bytes, size_t align) STRATA_REQUIRES(lock_) {
    for (Spare** link = &spare_; *link != nullptr; link = &(*link)->next) {
      Spare* s = *link;
      if (s->bytes < bytes + align) continue;
      const size_t all = s->bytes;
      *link = s->next;
      spare_bytes_ -= all;
      --spares_;
      *s = {};  // as fresh memory is
      KeepRest();
      next_ = reinterpret_cast<uintptr_t>(s);
      end_ = next_ + all;
      return true;
    }
    return false;
  }

  void KeepRest() STRATA_REQUIRES(lock_) {
    const uintptr_t at = RoundUp(next_, alignof(Spare));
    if (next_ == 0 || at + kLeastSpare > end_) return;
    spare_ = ::new (reinterpret_cast<void*>(at)) Spare{spare_, end_ - at};
    spare_bytes_ += end_ - at;
    ++spares_;
  }

  // Large records get a mapping of their own; the current chunk stays in use.
  void* AllocateApart(size_t bytes, size_t align) STRATA_REQUIRES(lock_) {
    const size_t chunk = RoundUp(bytes + align, kNativePageSize);
    void* fresh = map_(chunk);
    if (fresh == nullptr) return nullptr;
    Add(mapped_, chunk);
    Add(used_, bytes);
    return reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(fresh), align));
  }

  MapFunction map_;
  Lock lock_{LockRank::kMetadata};
  uintptr_t next_ STRATA_GUARDED_BY(lock_) = 0;
  uintptr_t end_ STRATA_GUARDED_BY(lock_) = 0;
  Spare* spare_ STRATA_GUARDED_BY(lock_) = nullptr;
  size_t spare_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  size_t spares_ STRATA_GUARDED_BY(lock_) = 0;
  size_t heap_total_ STRATA_GUARDED_BY(lock_) = 0;  // as last ensured
  size_t heap_bytes_ STRATA_GUARDED_BY(lock_) = 0;  // of the heap's records so far
  // Written under lock_, read without it.
  std::atomic<size_t> used_{0};
  std::atomic<size_t> mapped_{0};
};

// Records of one size, recycled through a free list. Not thread-safe: its owner's lock guards it.
// Records come back with old contents, so T's constructor runs on each New().
template <class T>
class RecordPool {
 public:
  constexpr explicit RecordPool(MetadataArena& arena, MetadataUse use = MetadataUse::kOther)
      : arena_(arena), use_(use) {}

  T* New() {
    void* p = free_;
    if (p != nullptr) {
      free_ = free_->next;
    } else {
      p = arena_.Allocate(kSize, kAlign, use_);
      if (p == nullptr) return nullptr;
    }
    return ::new (p) T();
  }

  void Delete(T* t) {
    t->~T();
    free_ = ::new (static_cast<void*>(t)) FreeRecord{free_};
  }

 private:
  struct FreeRecord {
    FreeRecord* next;
  };
  static constexpr size_t kSize = sizeof(T) < sizeof(FreeRecord) ? sizeof(FreeRecord) : sizeof(T);
  static constexpr size_t kAlign =
      alignof(T) < alignof(FreeRecord) ? alignof(FreeRecord) : alignof(T);

  MetadataArena& arena_;
  const MetadataUse use_;
  FreeRecord* free_ = nullptr;
};

}  // namespace strata
