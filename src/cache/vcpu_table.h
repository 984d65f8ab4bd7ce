// The records of all virtual CPUs (cache/vcpu.h), each made when its vCPU is used for the first
// time. Sits in cache; what works on vCPUs from outside walks over them here.
//
// Lock order: the table's before a vCPU's.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

#include "base/check.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/slab.h"
#include "cache/vcpu.h"

namespace strata {

// Thread-safe: records come into use under `lock` and stay for ever.
class VcpuTable {
 public:
  // `slabs` is zeroed memory for `count` slabs. Returns false when memory for the table is refused.
  bool Init(MetadataArena* arena, void* slabs, size_t count) {
    arena_ = arena;
    slabs_ = static_cast<char*>(slabs);
    count_ = count;
    records_ =
        static_cast<std::atomic<Vcpu*>*>(arena->Allocate(count * sizeof(std::atomic<Vcpu*>), 64));
    return records_ != nullptr;
  }

  // Null: not used yet, or beyond the table.
  Vcpu* Find(size_t i) const {
    // acquire: pairs with the release in Activate, so that the record is seen whole.
    return i < count_ ? records_[i].load(std::memory_order_acquire) : nullptr;
  }
  // Find(i), or a new record with what `limit()` says; null when memory is short. The limit is
  // asked for under the lock.
  template <class Limit>
  STRATA_NOINLINE Vcpu* Activate(size_t i, Limit limit) STRATA_EXCLUDES(lock) {
    if (i >= count_) return nullptr;
    LockHolder hold(lock);
    if (Vcpu* v = Find(i)) return v;
    void* memory = arena_->Allocate(sizeof(Vcpu), alignof(Vcpu));
    if (memory == nullptr) return nullptr;
    Slab& slab = *reinterpret_cast<Slab*>(slabs_ + (i << kSlabShift));
    auto* v = ::new (memory) Vcpu(i, slab, limit());
    records_[i].store(v, std::memory_order_release);
    return v;
  }

  size_t count() const { return count_; }
  size_t in_use() const {
    size_t n = 0;
    for (size_t i = 0; i < count_; ++i) n += Find(i) != nullptr;
    return n;
  }
  void* slabs() const { return slabs_; }

  // Over those in use.
  class Iterator {
   public:
    Iterator(const VcpuTable* table, size_t at) : table_(table), at_(at) { Skip(); }
    Vcpu& operator*() const { return *found_; }
    Iterator& operator++() {
      ++at_;
      Skip();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    void Skip() {
      while (at_ < table_->count_ && (found_ = table_->Find(at_)) == nullptr) ++at_;
    }
    const VcpuTable* table_;
    size_t at_;
    Vcpu* found_ = nullptr;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, count_}; }

  // Held while a vCPU comes into use, and while limits move between them.
  Lock lock{LockRank::kCpuCache};

 private:
  MetadataArena* arena_ = nullptr;
  char* slabs_ = nullptr;
  std::atomic<Vcpu*>* records_ = nullptr;
  size_t count_ = 0;
};

}  // namespace strata
