// Where all metadata comes from: a bump arena over memory taken straight from the kernel, and pools
// of fixed-size records on top of it. Nothing is ever given back; every byte is counted (design
// §4.1). Sits in base and takes its memory from a function, so tests can hand it a buffer or make
// it fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/check.h"
#include "base/lock.h"
#include "base/units.h"

namespace strata {

// Thread-safe. Allocate returns zeroed memory, or null when the kernel refuses.
class MetadataArena {
 public:
  using MapFunction = void* (*)(size_t bytes);  // zeroed, page-aligned memory or null

  constexpr explicit MetadataArena(MapFunction map) : map_(map) {}

  void* Allocate(size_t bytes, size_t align = 16) {
    LockHolder hold(lock_);
    if (bytes + align > kChunk / 4) return AllocateApart(bytes, align);
    uintptr_t at = RoundUp(next_, align);
    if (next_ == 0 || at + bytes > end_) {
      if (!NewChunk(kChunk)) return nullptr;
      at = RoundUp(next_, align);
    }
    next_ = at + bytes;
    in_chunks_ += bytes;
    Add(used_, bytes);
    return reinterpret_cast<void*>(at);
  }

  // Makes sure that small records of `total` bytes, counting those already made, need nothing more
  // from the kernel. Called before the heap takes address space that such records will describe, so
  // that the heap can't starve its own tables.
  bool EnsureTotal(size_t total) {
    LockHolder hold(lock_);
    if (in_chunks_ + (end_ - next_) >= total) return true;
    return NewChunk(RoundUp(total - in_chunks_, kChunk));
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

  static void Add(std::atomic<size_t>& n, size_t by) {  // under lock_
    n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  // What is left of the old chunk stays unused and, untouched as it is, costs address space only.
  bool NewChunk(size_t bytes) STRATA_REQUIRES(lock_) {
    void* fresh = map_(bytes);
    if (fresh == nullptr) return false;
    Add(mapped_, bytes);
    next_ = reinterpret_cast<uintptr_t>(fresh);
    end_ = next_ + bytes;
    return true;
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
  size_t in_chunks_ STRATA_GUARDED_BY(lock_) = 0;  // bytes of small records so far
  // Written under lock_, read without it.
  std::atomic<size_t> used_{0};
  std::atomic<size_t> mapped_{0};
};

// Records of one size, recycled through a free list. Not thread-safe: its owner's lock guards it.
// Records come back with old contents, so T's constructor runs on each New().
template <class T>
class RecordPool {
 public:
  constexpr explicit RecordPool(MetadataArena& arena) : arena_(arena) {}

  T* New() {
    void* p = free_;
    if (p != nullptr) {
      free_ = free_->next;
    } else {
      p = arena_.Allocate(kSize, kAlign);
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
  FreeRecord* free_ = nullptr;
};

}  // namespace strata
