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
    uintptr_t at = RoundUp(next_, align);
    if (next_ == 0 || at + bytes > end_) {
      const size_t chunk =
          bytes + align > kChunk / 4 ? RoundUp(bytes + align, kNativePageSize) : kChunk;
      void* fresh = map_(chunk);
      if (fresh == nullptr) return nullptr;
      mapped_.store(mapped_.load(std::memory_order_relaxed) + chunk, std::memory_order_relaxed);
      if (chunk !=
          kChunk) {  // large records get a mapping of their own; the current chunk stays in use
        used_.store(used_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
        return reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(fresh), align));
      }
      next_ = reinterpret_cast<uintptr_t>(fresh);
      end_ = next_ + chunk;
      at = RoundUp(next_, align);
    }
    next_ = at + bytes;
    used_.store(used_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    return reinterpret_cast<void*>(at);
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

  MapFunction map_;
  Lock lock_{LockRank::kMetadata};
  uintptr_t next_ STRATA_GUARDED_BY(lock_) = 0;
  uintptr_t end_ STRATA_GUARDED_BY(lock_) = 0;
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
