// Reaps as the process knows them: the Reap layer over chunks of the process heap, in records that
// stay readable when their reap is gone, nested in a tree. The page map says which pages are a
// reap's, so any block leads to its reap, and free() of one does. Sits in regions; the calls of
// strata/reap.h are in reap_api.cpp, what malloc asks in malloc/region_calls.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/placement.h"
#include "base/units.h"
#include "malloc/region_calls.h"
#include "regions/reap_lock.h"
#include "span/size_classes.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/detail/family.h"
#include "strata/reap.h"

struct strata_scope;

namespace strata {

// Blocks of the process heap that have their pages to themselves. They stay below the size of large
// blocks, whose pages past the first are not in the page map, save where a block is larger.
struct ReapChunks {
  static constexpr size_t alignment = 16;
  static constexpr bool thread_safe = true;
  // The least size of a class, or of a large block, that has its pages to itself.
  static constexpr size_t whole(size_t bytes) {
    return bytes > kMaxClassSize ? RoundUp(bytes, kPageSize)
                                 : InfoOf(ClassOfWholePages(bytes)).size;
  }
  // Also of the small block that a reap's first free makes. Out of line: the fast path's
  // restartable sequences must not stand in a template's section, which the linker may drop.
  STRATA_NOINLINE static void* allocate(size_t size);
  // For the reap that will hold it.
  STRATA_NOINLINE static void* allocate_for(void* reap, size_t size);
  STRATA_NOINLINE static void deallocate(void* p, size_t size);
  // As realloc does it: where it lies, by page tables or by a copy, and with some to spare.
  STRATA_NOINLINE static void* remap_for(void* reap, void* p, size_t size, size_t wanted);
  // Of a reap's chunks: one with a placement has them in spans of their own, as AllocatePlaced
  // needs.
  STRATA_NOINLINE static size_t least_for(const void* reap);
  // Of the chunk that p lies in; null where the page map does not know.
  STRATA_NOINLINE static void* start_of(const void* p);
};

using ReapHeap = layers::Stack<layers::Reap<(8 << 10), (128 << 10)>, ReapChunks>;

}  // namespace strata

// Records are never unmapped: a stale handle reads kGone, or finds another reap.
struct alignas(64) strata_reap {
  enum State : uint64_t { kLive = 0x7265617020697321, kGone = 0x67656e7420697421 };

  strata::ReapHeap heap;  // first: its first words are the window of the calls in line
  // Ends, with g_tree and `lock` held, before the heap does: who has the lock and reads kLive has
  // the heap.
  std::atomic<uint64_t> state{kLive};
  bool shared = false;          // so the window is shut
  bool retired = false;         // gone with its last block; under `lock`
  bool kept = false;            // emptied, not ended, with the reaps above; under g_tree
  strata::Placement placement;  // of its chunks; under `lock`
  uint64_t ended = 0;           // how many lives the record had before; under `lock`
  // Asked at the heap's cap, without the lock.
  strata_reap_cap_function reached = nullptr;
  void* context = nullptr;
  // Of a shared reap: everything in `heap`. Never made anew, for a stale handle's caller may wait.
  strata::ReapLock lock;
  std::atomic<strata_scope*> scope{nullptr};  // whose memory this is; the same from birth to end
  strata_reap* next = nullptr;                // of those that one call ends, and of free records
  // The tree; under g_tree.
  strata::layers::FamilyLinks<strata_reap> family;
  // Among the records of shared reaps; changed under g_tree.
  std::atomic<strata_reap*> next_shared{nullptr};
  std::atomic<bool> listed{false};
  bool buried = false;  // in no use since it was last a shared reap's; under g_tree
};

namespace strata {

// The reaps' and scopes' records and how they nest. Taken before a reap's own lock.
extern Lock g_tree;

// One line to stderr and the end, or as STRATA_ON_ERROR says.
void ReportMisuse(const char* what, const void* p);

inline bool IsLiveReap(const strata_reap* reap) {
  return reinterpret_cast<uintptr_t>(reap) % alignof(strata_reap) == 0 &&
         reap->state.load(std::memory_order_relaxed) == strata_reap::kLive;
}
STRATA_NOINLINE bool RefuseReap(const strata_reap* reap);
// False, with the misuse reported and EINVAL: not a live reap.
STRATA_ALWAYS_INLINE bool ExpectReap(const strata_reap* reap) {
  if (STRATA_LIKELY(reap != nullptr && IsLiveReap(reap))) return true;
  return RefuseReap(reap);
}

// The reap that p lies in, null for other memory.
strata_reap* ReapAround(const void* p);

enum class UsedBy : bool { kOneThread, kThreads };
strata_reap* CreateReap(strata_reap* parent, UsedBy users, strata_scope* scope = nullptr);
// Where a reap above is cleared or ends, this one is emptied only.
void KeepReap(strata_reap* reap);
// The blocks and the reaps below go; the reap goes, too.
void ClearReap(strata_reap* reap);
void DestroyReap(strata_reap* reap);
// The reap goes when its last block does.
void RetireReap(strata_reap* reap);
// 0 or EINVAL.
int SetReapParent(strata_reap* reap, strata_reap* parent);

// Any reap's, with its lock and its scope's account. Null with ENOMEM. The reap is known to be
// live, and the block to be its own.
void* AllocateInReap(strata_reap* reap, size_t size, size_t align);
// The same for a thread in the scope, which holds the scope's record. Says if that has ended.
void* AllocateInScopesReap(strata_reap* reap, strata_scope* scope, size_t size, size_t align,
                           bool* ended);
enum class Resizing : bool { kInPlace, kMayMove };
// Where the block is then: where it was, or if it may move, wherever the process heap takes its
// pages. Null, and nothing has changed: it takes a copy.
void* ResizeInReap(strata_reap* reap, void* p, size_t size, Resizing how);
void* MoveInReap(strata_reap* reap, void* p, size_t size);
void FreeInReap(strata_reap* reap, void* p);
// Of a reap for one thread. False, with nothing done: it takes all checks to say what p is.
bool FreeInOwn(strata_reap* reap, void* p);
size_t SizeInReap(strata_reap* reap, void* p);
size_t UsedByReap(strata_reap* reap);
size_t HeldByReap(strata_reap* reap);
// A hint: what it holds from now on will stay for long.
void ReapLasts(strata_reap* reap);
// Room for so many bytes, or fewer, in one place.
void ReserveInReap(strata_reap* reap, size_t bytes);
// False, with the misuse reported: p is no block of this reap, or one that was freed.
bool ExpectBlock(strata_reap* reap, void* p);
void CapReap(strata_reap* reap, size_t bytes, strata_reap_cap_function reached, void* context);

}  // namespace strata
