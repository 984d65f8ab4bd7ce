// The active huge pages of a shard, by rung and by the length of their longest run of free blocks:
// who needs a run looks at pages that have one, the tightest first. Lists of pages with reusable
// spans lie beside. Summaries of both are read by other shards without the lock; they may be old.
// Maas et al., CACM 67(4), 2024, section 3.3, which leaves the search open. Guarded by the shard's
// lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "lifetime/huge_block_page.h"

namespace strata {

class ActivePages {
 public:
  // Blocks found on a page; no page: none.
  struct Found {
    HugeBlockPage* page = nullptr;
    size_t at = 0;
  };

  void Add(HugeBlockPage& page) {
    page.gaps = static_cast<uint16_t>(kBlocksPerPage - page.LiveBlocks());
    AddGaps(page.rung, page.gaps);
    page.bucket = BucketOf(page.LongestFree());
    runs_[page.rung][page.bucket].PushFront(&page.by_run);
    Note(page.rung, page.bucket);
    if (page.reusable.Any()) AddSpans(page);
  }
  void Remove(HugeBlockPage& page) {
    AddGaps(page.rung, -int{page.gaps});
    runs_[page.rung][page.bucket].Remove(&page.by_run);
    Note(page.rung, page.bucket);
    RemoveSpans(page);
  }
  // After so many more of its blocks, or fewer, came free.
  void Reorder(HugeBlockPage& page, int freed) {
    page.gaps = static_cast<uint16_t>(page.gaps + freed);
    AddGaps(page.rung, freed);
    const uint8_t bucket = BucketOf(page.LongestFree());
    if (bucket != page.bucket) {
      runs_[page.rung][page.bucket].Remove(&page.by_run);
      Note(page.rung, page.bucket);
      page.bucket = bucket;
      runs_[page.rung][bucket].PushFront(&page.by_run);
      Note(page.rung, bucket);
    }
    DropIfNotReusable(page);
  }
  void DropIfNotReusable(HugeBlockPage& page) {
    if (!page.reusable.Any()) RemoveSpans(page);
  }

  // n free blocks at a multiple of `align` on a page of this rung.
  Found Find(Rung rung, size_t n, size_t align) const {
    unsigned filled = masks_[rung].load(std::memory_order_relaxed) & (~0u << std::bit_width(n));
    for (; filled != 0; filled &= filled - 1) {
      const auto b = static_cast<size_t>(std::countr_zero(filled));
      size_t looked = 0;
      for (auto* link = runs_[rung][b].first(); link != nullptr && looked < kLook;
           link = IntrusiveList<HugeBlockPage::Link>::Next(link), ++looked) {
        const size_t at = link->page->FindFree(n, align);
        if (at < kBlocksPerPage) return {link->page, at};
      }
    }
    return {};
  }
  HugeBlockPage* WithReusable(Rung rung) const {
    return spans_[rung].empty() ? nullptr : spans_[rung].first()->page;
  }

  // Without the lock: whether Find and WithReusable are worth it.
  bool MayHave(Rung rung, size_t n) const {
    return masks_[rung].load(std::memory_order_relaxed) >> std::bit_width(n) != 0;
  }
  // Free blocks on pages of longer rungs.
  size_t GapsAbove(Rung rung) const {
    size_t sum = 0;
    for (Rung r = rung + 1; r < kRungs; ++r) sum += gaps_[r].load(std::memory_order_relaxed);
    return sum;
  }
  bool MayHaveReusable(Rung rung) const {
    return (reusable_.load(std::memory_order_relaxed) >> rung & 1) != 0;
  }

 private:
  static constexpr size_t kBuckets = std::bit_width(kBlocksPerPage) + 1;  // 0: nothing free
  // Pages of a bucket that are looked at: the first has the run unless it is a little too short or
  // badly aligned, so a few are enough, and the time does not grow with the heap.
  static constexpr size_t kLook = 8;

  static uint8_t BucketOf(size_t longest) { return static_cast<uint8_t>(std::bit_width(longest)); }
  void Note(Rung rung, size_t bucket) {
    const auto bit = static_cast<uint16_t>(1u << bucket);
    const uint16_t old = masks_[rung].load(std::memory_order_relaxed);
    const auto now = static_cast<uint16_t>(runs_[rung][bucket].empty() ? old & ~bit : old | bit);
    if (now != old) masks_[rung].store(now, std::memory_order_relaxed);
  }
  void AddGaps(Rung rung, int more) {
    gaps_[rung].store(gaps_[rung].load(std::memory_order_relaxed) + more,
                      std::memory_order_relaxed);
  }
  void AddSpans(HugeBlockPage& page) {
    spans_[page.rung].PushBack(&page.by_spans);
    page.in_spans = true;
    NoteSpans(page.rung);
  }
  void RemoveSpans(HugeBlockPage& page) {
    if (!page.in_spans) return;
    spans_[page.rung].Remove(&page.by_spans);
    page.in_spans = false;
    NoteSpans(page.rung);
  }
  void NoteSpans(Rung rung) {
    const auto bit = static_cast<uint8_t>(1u << rung);
    const uint8_t old = reusable_.load(std::memory_order_relaxed);
    const auto now = static_cast<uint8_t>(spans_[rung].empty() ? old & ~bit : old | bit);
    if (now != old) reusable_.store(now, std::memory_order_relaxed);
  }

  IntrusiveList<HugeBlockPage::Link> runs_[kRungs][kBuckets];
  IntrusiveList<HugeBlockPage::Link> spans_[kRungs];
  std::atomic<int> gaps_[kRungs] = {};
  // In a line of their own: who asks for the lists of other shards should not wait for it each time
  // that those change.
  alignas(64) std::atomic<uint16_t> masks_[kRungs] = {};
  std::atomic<uint8_t> reusable_{0};
};

}  // namespace strata
