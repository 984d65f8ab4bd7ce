// All unwind tables of a process, as walkers see them: an index whose tables never change, replaced
// as a whole when files come and go. A walker pins the current index, which takes no lock; a
// replaced one is freed once nobody has it pinned. Sits in profile/unwind.
//
// A file gets its table once walks have met its code often enough: a server with sixty libraries
// allocates from five, and the tables of all of them take six megabytes.
//
// Why pins and not a grace period by threads: it needs no list of threads, none of their time and
// no TLS, works in signal handlers, and costs two atomic operations a walk. The records with the
// pin counts are few and never freed, so a walker may touch one at any time. A walker that never
// ends (its thread was killed in the middle) keeps its index for good; when all records are held
// so, tables are no longer refreshed, and walks go on with the ones there are.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/units.h"
#include "profile/mappings.h"
#include "profile/unwind/elf_code.h"
#include "profile/unwind/tables_for.h"
#include "profile/unwind/unwind_table.h"

namespace strata {

// One stretch of code. The same file at the same place keeps its table from one index to the next.
struct CodeModule {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  UnwindTable* table = nullptr;  // null: not read yet, or the file has no unwind information
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t fingerprint = 0;
  bool read = false;
  uint32_t met = 0;  // by walks while it was not; atomic in an index

  bool SameCode(const CodeModule& o) const {
    return begin == o.begin && end == o.end && device == o.device && inode == o.inode &&
           fingerprint == o.fingerprint;
  }
};

class UnwindIndex {
 public:
  // So many walks pay the hundredfold for a file before its table is made.
  static constexpr uint32_t kMeetings = 32;

  // The rule for the code at `pc`. Any thread, while it has the index pinned.
  STRATA_ALWAYS_INLINE FoundRule Find(uintptr_t pc) const {
    // One word holds the rule and the part of pc that its place in the cache does not say, so it
    // can't be torn; an index has a cache of its own, so it can't be stale. relaxed: nothing else
    // hangs on it.
    const uint64_t word = cache_[SlotOf(pc)].load(std::memory_order_relaxed);
    if (STRATA_LIKELY(word >> UnwindRule::kBits == pc >> kCacheBits))
      return {UnwindRule::FromBits(static_cast<uint32_t>(word) & kRuleMask), true};
    return FindSlow(pc);
  }
  // The stretch that holds `pc`, or null.
  CodeModule* ModuleAt(uintptr_t pc) const;
  // A walk met its code, and found no table.
  void NoteMeeting(CodeModule& module) const;

  const CodeModule& module(size_t i) const { return modules_[i]; }

 private:
  friend class UnwindTables;
  enum class State : uint8_t { kFree, kInUse, kReplaced };

  // 8192 words, 64 KiB, on x86-64, of which used pages count; twice that where addresses have a bit
  // more.
  static constexpr unsigned kCacheBits = arch::kAddressBits - (64 - UnwindRule::kBits);
  static constexpr size_t kWordsPerPage = kNativePageSize / sizeof(uint64_t);
  static constexpr size_t kCacheBytes = (size_t{1} << kCacheBits) * sizeof(uint64_t);
  static constexpr uint32_t kRuleMask = (1u << UnwindRule::kBits) - 1;
  static constexpr uintptr_t kAddressEnd = uintptr_t{1} << arch::kAddressBits;

  // The low bits moved by a hash of the others, so that slot and other bits give pc.
  static size_t SlotOf(uintptr_t pc) {
    const uint64_t spread = (pc >> kCacheBits) * 0x9e3779b97f4a7c15u;
    return (pc + (spread >> (64 - kCacheBits))) & ((size_t{1} << kCacheBits) - 1);
  }
  FoundRule FindSlow(uintptr_t pc) const;
  size_t CacheBytesUsed() const {
    return static_cast<size_t>(std::popcount(cache_pages_.load(std::memory_order_relaxed))) *
           kNativePageSize;
  }

  std::atomic<uint32_t> pins_{0};
  State state_ = State::kFree;     // this and the bytes: under the lock of the tables
  size_t bytes_ = 0;               // of the mapping at modules_
  CodeModule* modules_ = nullptr;  // by begin
  size_t count_ = 0;
  std::atomic<uint64_t>* cache_ = nullptr;  // kept when the record is used again
  // A bit for each page of the cache that was ever written: the kernel has backed no others.
  mutable std::atomic<uint32_t> cache_pages_{0};
  mutable std::atomic<bool> wants_table_{false};  // a file was met often enough
  static_assert(kCacheBytes / kNativePageSize <= 32);
};

class UnwindTables {
 public:
  constexpr explicit UnwindTables(TableMemory memory) : memory_(memory) {}

  // Makes tables for the code that the text of /proc/PID/maps lists, which `read_maps` puts into a
  // ScratchArray<char>. It reads under the lock: a text read before would bring back the past where
  // another thread has refreshed since. False: no text, no memory, or too many old indexes are
  // still pinned.
  template <class ReadMaps>
  bool Refresh(ReadMaps&& read_maps, MemoryReader& memory, TablesFor which = TablesFor::kAllCode) {
    LockHolder hold(lock_);
    ScratchArray<char> maps;
    return read_maps(maps) && RefreshFrom(maps.data(), maps.size(), memory, which);
  }

  // Holds the current index while it lives.
  class Pin {
   public:
    explicit Pin(UnwindTables& tables) : index_(tables.PinCurrent()) {}
    ~Pin() {
      // release: pairs with the load in FreeReplaced. The walk's reads come before the unmapping.
      if (index_ != nullptr) index_->pins_.fetch_sub(1, std::memory_order_release);
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    const UnwindIndex* index() const { return index_; }  // null before the first Refresh

   private:
    UnwindIndex* index_;
  };

  // Whether this thread is in the midst of one: in a signal handler.
  bool Refreshes() const { return lock_.HeldByThisThread(); }

  bool prepared() const { return current_.load(std::memory_order_relaxed) != nullptr; }
  // A refresh would make a table for code that walks have met.
  bool wants_table() const {
    // No pin: indexes are never freed, and that of one replaced meanwhile tells of the past.
    const UnwindIndex* index = current_.load(std::memory_order_acquire);
    return index != nullptr && index->wants_table_.load(std::memory_order_relaxed);
  }
  // Memory written to, and so taken from the system, for all of it.
  size_t bytes() const {
    size_t sum = bytes_.load(std::memory_order_relaxed);
    for (const UnwindIndex& index : indexes_) sum += index.CacheBytesUsed();
    return sum;
  }
  uint32_t published() const { return published_.load(std::memory_order_relaxed); }

  // In a forked child, where no other thread walks or refreshes any more. What a refresh had half
  // done is lost memory; what it had published is whole.
  void ForgetOthersInChild();

 private:
  static constexpr size_t kIndexes = 6;

  UnwindIndex* PinCurrent();
  bool RefreshFrom(const char* maps, size_t size, MemoryReader& memory, TablesFor which)
      STRATA_REQUIRES(lock_);
  bool ListModules(const char* maps, size_t size, MemoryReader& memory,
                   ScratchArray<CodeModule>& list, ScratchArray<uintptr_t>& bases);
  bool FillTables(MemoryReader& memory, ScratchArray<CodeModule>& list,
                  const ScratchArray<uintptr_t>& bases, TablesFor which, size_t* changes)
      STRATA_REQUIRES(lock_);
  bool MakeTable(uintptr_t base, MemoryReader& memory, ScratchArray<uint8_t>& bytes,
                 CodeModule* module, bool* out_of_memory) STRATA_REQUIRES(lock_);
  bool Publish(const ScratchArray<CodeModule>& list) STRATA_REQUIRES(lock_);
  UnwindIndex* FreeIndex() STRATA_REQUIRES(lock_);
  void FreeReplaced() STRATA_REQUIRES(lock_);
  bool IsUsed(const UnwindTable* table) const STRATA_REQUIRES(lock_);
  void FreeTable(UnwindTable* table) STRATA_REQUIRES(lock_);
  void* Map(size_t bytes);

  TableMemory memory_;
  Lock lock_{LockRank::kUnwind};
  std::atomic<UnwindIndex*> current_{nullptr};
  std::atomic<size_t> bytes_{0};  // without the caches
  std::atomic<uint32_t> published_{0};
  UnwindIndex indexes_[kIndexes];  // written under lock_ while nobody can have them pinned
};

}  // namespace strata
