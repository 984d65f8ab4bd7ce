// The record of one huge page: which of its 256 blocks of 8 KiB are live, which of those are
// residual (predicted to live as long as the page's rung says), where objects end, and which pairs
// of blocks are spans of small objects. Only bits and their invariants; when a page changes its
// rung or its state is page_shard.h's business, whose lock guards all but the span bits.
// Maas et al., CACM 67(4), 2024, section 3.2.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/intrusive_list.h"
#include "base/units.h"
#include "hugepage/page_bitmap.h"
#include "lifetime/lifetime_ladder.h"

namespace strata {

inline constexpr size_t kBlockShift = kPageShift;
inline constexpr size_t kBlockSize = kPageSize;
inline constexpr size_t kBlocksPerPage = kPagesPerHugePage;
inline constexpr size_t kSpanBlocks = 2;
inline constexpr size_t kSpanSize = kSpanBlocks * kBlockSize;
inline constexpr size_t kSpansPerPage = kBlocksPerPage / kSpanBlocks;

enum class BlockPageState : uint8_t { kFree, kOpen, kActive };

// Whether blocks are meant to live as long as their page, or shorter.
enum class Stay : bool { kShorter, kResidual };

// Of an object on several pages.
enum class Part : bool { kMiddle, kLast };
enum class BlockUse : bool { kObject, kSpan };

struct BlockRequest {
  size_t blocks;
  size_t align;  // in blocks, a power of two
  Rung rung;
  BlockUse use;
};

// Whole cache lines: records of pages of several shards lie side by side.
class alignas(64) HugeBlockPage {
 public:
  using Blocks = PageBitmap<kBlocksPerPage>;
  using Spans = PageBitmap<kSpansPerPage>;
  struct Link : ListNode<Link> {
    HugeBlockPage* page = nullptr;
  };

  HugeBlockPage() { by_run.page = by_deadline.page = by_spans.page = this; }
  HugeBlockPage(const HugeBlockPage&) = delete;
  HugeBlockPage& operator=(const HugeBlockPage&) = delete;

  // --- Blocks

  bool AnyLive() const { return live_.Any(); }
  bool AnyResidual() const { return residual_.Any(); }
  bool IsLive(size_t block) const { return live_.Test(block); }
  bool IsResidual(size_t block) const { return residual_.Test(block); }
  size_t LiveBlocks() const { return live_.Count(); }
  size_t LongestFree() const { return Free().LongestRun(); }

  // The first free run of n blocks that begins at a multiple of `align`; kBlocksPerPage: none.
  size_t FindFree(size_t n, size_t align) const {
    for (size_t at = live_.NextClear(0); at < kBlocksPerPage;) {
      const size_t end = live_.NextSet(at);
      const size_t start = RoundUp(at, align);
      if (start + n <= end) return start;
      at = end < kBlocksPerPage ? live_.NextClear(end) : kBlocksPerPage;
    }
    return kBlocksPerPage;
  }

  // Blocks of an object that lies on this page alone.
  void Take(size_t at, size_t n, Stay stay) {
    Cover(at, n, stay);
    ends_.SetRange(at + n - 1, 1);
  }
  // The part on this page of an object of `bytes` that goes on on the next page...
  void TakeUntilEnd(size_t at, size_t bytes, Stay stay) {
    Cover(at, kBlocksPerPage - at, stay);
    bytes_of_last_ = bytes;
  }
  // ...and the parts there, whole pages but for the last.
  void TakeOn(size_t n, Part part, Stay stay) {
    Cover(0, n, stay);
    begins_inside_ = true;
    if (part == Part::kLast) ends_.SetRange(n - 1, 1);
  }

  void Give(size_t at, size_t n) {
    STRATA_DCHECK(live_.AllIn(at, n));
    STRATA_DCHECK(!IsSpan(at / kSpanBlocks) && !IsSpan((at + n - 1) / kSpanBlocks));
    live_.ClearRange(at, n);
    residual_.ClearRange(at, n);
    ends_.ClearRange(at, n);
    if (at == 0) begins_inside_ = false;
    if (at + n == kBlocksPerPage) bytes_of_last_ = 0;
  }

  // Of the object that begins at this block, on whatever pages; 0: none begins here.
  size_t ObjectBytes(size_t at) const {
    if (!BeginsAt(at)) return 0;
    const size_t end = ends_.NextSet(at);
    if (end < kBlocksPerPage) return (end + 1 - at) << kBlockShift;
    return bytes_of_last_;
  }

  // What is left after the residual blocks are gone was to live shorter, so now all of it is what
  // the page waits for.
  void MakeAllResidual() { residual_ = live_; }

  // --- Spans. Their bits are read without the lock, by whoever has an object in one: while it
  // lives, its span's bit stays. A bit is set, without the lock too, once the span has its head.

  bool IsSpan(size_t span) const {  // acquire: the head is seen
    return (span_words_[span / 64].load(std::memory_order_acquire) >> span % 64 & 1) != 0;
  }
  void SetSpan(size_t span) {
    span_words_[span / 64].fetch_or(uint64_t{1} << span % 64, std::memory_order_release);
  }
  void ClearSpan(size_t span) {
    span_words_[span / 64].fetch_and(~(uint64_t{1} << span % 64), std::memory_order_relaxed);
  }

  uintptr_t base = 0;
  void* shard = nullptr;  // whose lock guards this; set once while the page is in use
  BlockPageState state = BlockPageState::kFree;
  Rung rung = kShortest;
  uint8_t bucket = 0;     // of the list by_run is on
  bool in_spans = false;  // whether by_spans is on a list
  uint16_t gaps = 0;      // free blocks, of active pages
  uint64_t deadline = 0;  // of active pages
  Spans reusable;         // closed spans with free lines, found when a deadline passed
  Link by_run, by_deadline, by_spans;

 private:
  Blocks Free() const {
    Blocks all;
    all.SetRange(0, kBlocksPerPage);
    return all.Minus(live_);
  }
  bool BeginsAt(size_t at) const {
    if (!live_.Test(at)) return false;
    return at == 0 ? !begins_inside_ : ends_.Test(at - 1) || !live_.Test(at - 1);
  }
  void Cover(size_t at, size_t n, Stay stay) {
    STRATA_DCHECK(!live_.AnyIn(at, n));
    live_.SetRange(at, n);
    if (stay == Stay::kResidual) residual_.SetRange(at, n);
  }

  Blocks live_;
  Blocks residual_;
  Blocks ends_;               // the last block of each object that ends here
  size_t bytes_of_last_ = 0;  // of the object that goes on on the next page
  bool begins_inside_ = false;
  std::atomic<uint64_t> span_words_[kSpansPerPage / 64] = {};
};

}  // namespace strata
