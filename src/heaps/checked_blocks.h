// Checked blocks, for a debugging run (STRATA_CHECK): each has canaries on both sides, is filled
// when it is made and when it is freed, and once freed lies in a quarantine until others have
// followed it; when it leaves, what was written to it meanwhile shows, and it is wiped. Who
// allocated and freed it stands in a record apart, so that no overflow damages that. Sits in heaps,
// on whatever gives raw memory; malloc/checked.h puts it between the program and the heap. The
// ideas are old: G. Nelson's red zones in Electric Fence's line, and Valgrind's queue of freed
// blocks (N. Nethercote and J. Seward, PLDI 2007, section 4).
//
// Thread-safe: one lock, under which nothing is called but the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "heaps/block_history.h"

namespace strata {

struct CheckedBlock {
  CheckedBlock* next = nullptr;      // of the same bucket, or free
  CheckedBlock* followed = nullptr;  // by what was freed after it
  unsigned char* raw = nullptr;
  unsigned char* user = nullptr;
  size_t size = 0;    // asked for
  size_t usable = 0;  // of the raw memory
  bool freed_once = false;
  BlockEvent allocated;
  BlockEvent freed;
};

enum class CheckFinding : uint8_t {
  kNone,
  kUnknown,  // no block begins there
  kFreedBefore,
  kBeyondEnd,
  kBeforeStart,
  kAfterFree,  // a freed block was written to
};

struct CheckVerdict {
  CheckFinding finding = CheckFinding::kNone;
  const unsigned char* at = nullptr;  // the byte that gives it away
  const CheckedBlock* block = nullptr;
};

class CheckedBlocks {
 public:
  static constexpr size_t kLeast = 16;  // of a canary
  static constexpr size_t kMostQuarantined = size_t{32} << 20;
  static constexpr size_t kMostInQuarantine = size_t{1} << 16;
  static constexpr unsigned char kNewByte = 0xa5, kFreedByte = 0xde, kCanary = 0xca;

  explicit CheckedBlocks(MetadataArena& arena) : arena_(arena) {}
  CheckedBlocks(const CheckedBlocks&) = delete;
  CheckedBlocks& operator=(const CheckedBlocks&) = delete;

  static constexpr size_t LeftOf(size_t align) { return align < kLeast ? kLeast : align; }
  // Raw memory to ask for, aligned as the block. `size` is at most PTRDIFF_MAX, and `align` small.
  static constexpr size_t RawSize(size_t size, size_t align) {
    return LeftOf(align) + size + kLeast;
  }

  // By its low bits blocks at regular distances, as the heap has them, share buckets no more than
  // others. One multiplication alone put seven of 192 bytes into one.
  static uint64_t HashOf(const void* user) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;
    const uint64_t once = (reinterpret_cast<uintptr_t>(user) >> 4) * kOdd;
    return ((once ^ (once >> 32)) * kOdd) >> 32;
  }

  // Makes a block of raw memory. Null: no memory for its record.
  void* Add(void* raw, size_t usable, size_t size, size_t align, const BlockEvent& event)
      STRATA_EXCLUDES(lock_) {
    auto* const start = static_cast<unsigned char*>(raw);
    unsigned char* const user = start + LeftOf(align);
    // Before the record is seen: another thread may look at all blocks, or this one, in a handler.
    memset(LeftCanary(start, user), kCanary, CanaryBytes(static_cast<size_t>(user - start)));
    memset(user, kNewByte, size);
    memset(user + size, kCanary, RightBytes(start, user, size, usable));
    LockHolder hold(lock_);
    CheckedBlock* b = NewRecord();
    if (b == nullptr) return nullptr;
    b->raw = start;
    b->user = user;
    b->size = size;
    b->usable = usable;
    b->freed_once = false;
    b->allocated = event;
    b->freed = {};
    CheckedBlock*& bucket = BucketOf(user);
    b->next = bucket;
    bucket = b;
    return user;
  }

  // A live block that begins there. The pointer is good until the block leaves the quarantine.
  const CheckedBlock* FindLive(const void* user) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    const CheckedBlock* b = Find(user);
    return b == nullptr || b->freed_once ? nullptr : b;
  }

  // Into quarantine, but not with kUnknown and kFreedBefore.
  CheckVerdict Free(void* user, const BlockEvent& event) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    CheckedBlock* b = Find(user);
    if (b == nullptr) return {CheckFinding::kUnknown, static_cast<unsigned char*>(user), nullptr};
    if (b->freed_once) return {CheckFinding::kFreedBefore, b->user, b};
    const CheckVerdict verdict = CheckCanaries(*b);
    b->freed_once = true;
    b->freed = event;
    memset(b->user, kFreedByte, b->size);
    // The record of one with an error is still wanted: the block stays for good.
    if (verdict.finding == CheckFinding::kNone) Enqueue(b);
    return verdict;
  }

  // The raw memory of a block that has been in quarantine long enough, wiped; null: none has.
  void* TakeOld(CheckVerdict& verdict) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    CheckedBlock* b = oldest_;
    if (b == nullptr || (queued_ <= kMostInQuarantine && queued_bytes_ <= kMostQuarantined))
      return nullptr;
    verdict = CheckFreed(*b);
    if (verdict.finding != CheckFinding::kNone) {
      // The record is still wanted: the block stays for good.
      Unqueue(b);
      return nullptr;
    }
    Unqueue(b);
    memset(b->user, 0, b->size);
    void* const raw = b->raw;
    Unlink(b);
    b->next = free_;
    free_ = b;
    return raw;
  }

  // The first error in any block, live or in quarantine.
  CheckVerdict CheckAll() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    for (size_t i = 0; i < buckets_; ++i) {
      for (const CheckedBlock* b = table_[i]; b != nullptr; b = b->next) {
        const CheckVerdict v = b->freed_once ? CheckFreed(*b) : CheckCanaries(*b);
        if (v.finding != CheckFinding::kNone) return v;
      }
    }
    return {};
  }

  // The block around an address that is none's start, in its memory or its canaries; null: none.
  // Looks at them all: it is for reports.
  const CheckedBlock* Around(const void* p) STRATA_EXCLUDES(lock_) {
    const auto* const at = static_cast<const unsigned char*>(p);
    LockHolder hold(lock_);
    for (size_t i = 0; i < buckets_; ++i) {
      for (const CheckedBlock* b = table_[i]; b != nullptr; b = b->next) {
        if (at >= b->raw && at < b->raw + b->usable) return b;
      }
    }
    return nullptr;
  }

  Lock& lock() STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  static constexpr size_t kMostCanary = 256;
  static constexpr size_t kFirstBuckets = 1024;
  static constexpr size_t kRecordsAtOnce = 64;

  static size_t CanaryBytes(size_t n) { return n < kMostCanary ? n : kMostCanary; }
  static unsigned char* LeftCanary(unsigned char* raw, unsigned char* user) {
    return user - CanaryBytes(static_cast<size_t>(user - raw));
  }
  static size_t RightBytes(const unsigned char* raw, const unsigned char* user, size_t size,
                           size_t usable) {
    return CanaryBytes(usable - static_cast<size_t>(user - raw) - size);
  }

  static CheckVerdict CheckCanaries(const CheckedBlock& b) {
    const unsigned char* const end = b.user + b.size;
    const size_t right = RightBytes(b.raw, b.user, b.size, b.usable);
    for (size_t i = 0; i < right; ++i) {
      if (end[i] != kCanary) return {CheckFinding::kBeyondEnd, end + i, &b};
    }
    const unsigned char* const left = LeftCanary(b.raw, b.user);
    for (const unsigned char* at = b.user; at-- > left;) {
      if (*at != kCanary) return {CheckFinding::kBeforeStart, at, &b};
    }
    return {};
  }
  // Of a whole block, which may be large: in steps that the compiler makes vectors of.
  static CheckVerdict CheckFreed(const CheckedBlock& b) {
    constexpr size_t kWords = 8;
    constexpr uint64_t kFreedWord = 0x0101010101010101u * kFreedByte;
    size_t i = 0;
    for (uint64_t words[kWords]; b.size - i >= sizeof(words); i += sizeof(words)) {
      memcpy(words, b.user + i, sizeof(words));
      uint64_t other = 0;
      for (const uint64_t word : words) other |= word ^ kFreedWord;
      if (other != 0) break;
    }
    for (; i < b.size; ++i) {
      if (b.user[i] != kFreedByte) return {CheckFinding::kAfterFree, b.user + i, &b};
    }
    return {};
  }

  // One that is as large as all may be goes first: else it would drive out all others.
  void Enqueue(CheckedBlock* b) STRATA_REQUIRES(lock_) {
    const bool first = b->usable > kMostQuarantined;
    b->followed = first ? oldest_ : nullptr;
    if (first || oldest_ == nullptr) {
      oldest_ = b;
    } else {
      newest_->followed = b;
    }
    if (!first || newest_ == nullptr) newest_ = b;
    ++queued_;
    queued_bytes_ += b->usable;
  }
  void Unqueue(CheckedBlock* b) STRATA_REQUIRES(lock_) {
    oldest_ = b->followed;
    if (oldest_ == nullptr) newest_ = nullptr;
    --queued_;
    queued_bytes_ -= b->usable;
  }

  CheckedBlock*& BucketOf(const void* user) STRATA_REQUIRES(lock_) {
    return table_[HashOf(user) & (buckets_ - 1)];
  }
  CheckedBlock* Find(const void* user) STRATA_REQUIRES(lock_) {
    if (buckets_ == 0) return nullptr;
    CheckedBlock* b = BucketOf(user);
    while (b != nullptr && b->user != user) b = b->next;
    return b;
  }
  void Unlink(CheckedBlock* b) STRATA_REQUIRES(lock_) {
    CheckedBlock** at = &BucketOf(b->user);
    while (*at != b) at = &(*at)->next;
    *at = b->next;
  }

  CheckedBlock* NewRecord() STRATA_REQUIRES(lock_) {
    if (free_ == nullptr) {
      auto* made = static_cast<CheckedBlock*>(
          arena_.Allocate(kRecordsAtOnce * sizeof(CheckedBlock), alignof(CheckedBlock)));
      if (made == nullptr) return nullptr;
      for (size_t i = 0; i < kRecordsAtOnce; ++i) {
        auto* b = ::new (&made[i]) CheckedBlock();
        b->next = free_;
        free_ = b;
      }
      made_ += kRecordsAtOnce;
    }
    // Few share one: the oldest, which leaves first, is the last of its bucket, and by then none is
    // in the processor's caches.
    if (2 * made_ > buckets_ && !MakeTable()) return nullptr;
    CheckedBlock* b = free_;
    free_ = b->next;
    return b;
  }
  // Four times as many buckets. True as well where there is no memory, but a table.
  bool MakeTable() STRATA_REQUIRES(lock_) {
    const size_t n = buckets_ == 0 ? kFirstBuckets : buckets_ * 4;
    auto* table = static_cast<CheckedBlock**>(arena_.Allocate(n * sizeof(CheckedBlock*), 64));
    if (table == nullptr) return buckets_ != 0;
    CheckedBlock** const old = table_;
    const size_t old_buckets = buckets_;
    table_ = table;
    buckets_ = n;
    for (size_t i = 0; i < old_buckets; ++i) {
      for (CheckedBlock* b = old[i]; b != nullptr;) {
        CheckedBlock* next = b->next;
        CheckedBlock*& bucket = BucketOf(b->user);
        b->next = bucket;
        bucket = b;
        b = next;
      }
    }
    return true;
  }

  MetadataArena& arena_;
  Lock lock_{LockRank::kSampler};
  CheckedBlock** table_ STRATA_GUARDED_BY(lock_) = nullptr;
  size_t buckets_ STRATA_GUARDED_BY(lock_) = 0;  // a power of two
  CheckedBlock* free_ STRATA_GUARDED_BY(lock_) = nullptr;
  size_t made_ STRATA_GUARDED_BY(lock_) = 0;
  CheckedBlock* oldest_ STRATA_GUARDED_BY(lock_) = nullptr;  // of the quarantine
  CheckedBlock* newest_ STRATA_GUARDED_BY(lock_) = nullptr;
  size_t queued_ STRATA_GUARDED_BY(lock_) = 0;
  size_t queued_bytes_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata
