// One shard of the global allocator of LLAMA: huge pages with their states and rungs, and what
// moves them from one to another.
//
//   free -> open     the first blocks on it are taken; one page of each rung is open
//   open -> active   all its blocks were taken once, or what comes next does not fit any more
//   active -> free   no block is live: given back at once
//   active, rung - 1 no residual block is live; what is live is residual now
//   active, rung + 1 its deadline has passed: somebody guessed too short. Its partly free spans may
//                    be used again from now on, and only so
//
// Blocks are taken from active pages of longer rungs if there are any free, where they are not
// residual, else from the open page of their own. The paper has one global allocator with one lock;
// here each of several shards is one with its own pages, so that threads on different CPUs do not
// meet. Whoever frees takes the lock of the page's shard, never two.
// Maas et al., CACM 67(4), 2024, sections 3.2 to 3.4. Sits in lifetime.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/lock.h"
#include "lifetime/active_pages.h"
#include "lifetime/block_page_records.h"
#include "lifetime/deadline_lists.h"
#include "lifetime/huge_block_page.h"
#include "lifetime/huge_page_supply.h"
#include "lifetime/lifetime_stats.h"
#include "lifetime/line_span.h"

namespace strata {

template <class Supply, SparePage kSpare>
class alignas(64) PageShard {
 public:
  constexpr PageShard() = default;
  PageShard(const PageShard&) = delete;
  PageShard& operator=(const PageShard&) = delete;

  // Free blocks on active pages of longer rungs: a large object's on the next longer one that has
  // some; those for many small ones on the longest, because they will be there for long. 0: none.
  uintptr_t TakeRecycled(const BlockRequest& r) STRATA_EXCLUDES(lock_) {
    if (!MayHave(r)) return 0;
    AcquireAndCount();
    const uintptr_t p = TakeRecycledHolding(r);
    lock_.Release();
    return p;
  }
  // The same of somebody else's shard: not worth a wait.
  uintptr_t TryTakeRecycled(const BlockRequest& r) STRATA_EXCLUDES(lock_) {
    if (!MayHave(r) || !lock_.TryAcquire()) return 0;
    const uintptr_t p = TakeRecycledHolding(r);
    lock_.Release();
    return p;
  }

  size_t GapsAbove(Rung rung) const { return active_.GapsAbove(rung); }

  // The next blocks of the open page of the rung. An object that is larger than the rest of it goes
  // on on the pages behind. 0: out of memory, or what is here is too little.
  uintptr_t TakeOpen(const BlockRequest& r, Supply& supply, Fresh fresh) STRATA_EXCLUDES(lock_) {
    ReleasedRuns released;
    AcquireAndCount();
    const uintptr_t p = TakeOpenHolding(r, supply, fresh, released);
    lock_.Release();
    released.GiveTo(supply);
    return p;
  }

  // A partly free span of a longer rung's page, claimed for the caller. Null: none.
  LineSpan* TakeReusable(Rung rung) STRATA_EXCLUDES(lock_) {
    for (Rung r = kLongest; r > rung; --r) {
      if (!active_.MayHaveReusable(r)) continue;
      LockHolder hold(lock_);
      if (LineSpan* span = TakeReusableHolding(r)) return span;
    }
    return nullptr;
  }

  // The object of whole blocks that begins at p; false: none does.
  bool FreeObject(HugeBlockPage* page, uintptr_t p, Supply& supply) STRATA_EXCLUDES(lock_) {
    ReleasedRuns released;
    {
      LockHolder hold(lock_);
      size_t at = BlockOf(p);
      size_t n = p % kBlockSize == 0 ? page->ObjectBytes(at) >> kBlockShift : 0;
      if (n == 0) return false;
      for (uintptr_t base = page->base; n > 0; at = 0) {
        const size_t here = std::min(n, kBlocksPerPage - at);
        Freed(*page, at, here, supply, released);
        n -= here;
        base += kHugePageSize;
        if (n > 0) page = supply.PageOf(base);
      }
    }
    released.GiveTo(supply);
    return true;
  }
  size_t ObjectBytes(HugeBlockPage* page, uintptr_t p) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return p % kBlockSize == 0 ? page->ObjectBytes(BlockOf(p)) : 0;
  }

  // Nothing lives in the span.
  void GiveSpan(HugeBlockPage& page, uintptr_t base, Supply& supply) STRATA_EXCLUDES(lock_) {
    ReleasedRuns released;
    {
      LockHolder hold(lock_);
      const size_t at = BlockOf(base);
      page.ClearSpan(at / kSpanBlocks);
      page.reusable.ClearRange(at / kSpanBlocks, 1);
      Freed(page, at, kSpanBlocks, supply, released);
    }
    released.GiveTo(supply);
  }

  // Whether threads come here at the same time, and not just once or twice.
  bool WasMetAt() const { return meetings_.load(std::memory_order_relaxed) >= kMeetings; }

  bool Due(uint64_t now) const { return next_deadline_.load(std::memory_order_relaxed) <= now; }
  // A few pages at a time, so that nobody waits long for the lock.
  void Expire(uint64_t now) STRATA_EXCLUDES(lock_) {
    while (Due(now)) {
      LockHolder hold(lock_);
      HugeBlockPage* page = deadlines_.Due(now);
      for (size_t n = 0; page != nullptr && n < kAtOnce; ++n, page = deadlines_.Due(now)) {
        PassDeadline(*page, now);
      }
      NoteNext();
    }
  }

  LifetimeStats stats() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return stats_;
  }
  Lock& lock() STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  // An object larger than this gets several pages in a row where it does not fit into the open one,
  // so that the next ones can run over page ends. For smaller ones the end that stays free is small
  // and shorter-lived blocks find it.
  static constexpr size_t kRunOver = 32;
  static constexpr size_t kPagesInRow = 2;
  static constexpr size_t kAtOnce = 4;
  static constexpr size_t kTries = 16;
  static constexpr uint32_t kMeetings = 4;

  // The open page of a rung, and the untouched pages that lie right behind it.
  struct OpenRun {
    HugeBlockPage* page = nullptr;
    size_t bump = 0;  // blocks of it that were taken, or skipped
    uintptr_t next = 0;
    size_t left = 0;
    uint64_t opened_ns = 0;
  };

  static size_t BlockOf(uintptr_t p) { return (p & (kHugePageSize - 1)) >> kBlockShift; }

  void AcquireAndCount() STRATA_ACQUIRE(lock_) {
    if (lock_.TryAcquire()) return;
    if (!WasMetAt()) meetings_.fetch_add(1, std::memory_order_relaxed);
    lock_.Acquire();
  }

  bool MayHave(const BlockRequest& r) const {
    if (r.blocks > kBlocksPerPage || r.align > kBlocksPerPage) return false;
    for (Rung rung = r.rung + 1; rung < kRungs; ++rung) {
      if (active_.MayHave(rung, r.blocks)) return true;
    }
    return false;
  }

  uintptr_t TakeRecycledHolding(const BlockRequest& r) STRATA_REQUIRES(lock_) {
    for (Rung i = r.rung + 1; i < kRungs; ++i) {
      const Rung rung =
          r.use == BlockUse::kObject ? i : static_cast<Rung>(kLongest - (i - r.rung - 1));
      const ActivePages::Found found = active_.Find(rung, r.blocks, r.align);
      if (found.page == nullptr) continue;
      found.page->Take(found.at, r.blocks, Stay::kShorter);
      active_.Reorder(*found.page, -static_cast<int>(r.blocks));
      stats_.live_blocks += r.blocks;
      stats_.recycled_blocks += r.blocks;
      return found.page->base + (found.at << kBlockShift);
    }
    return 0;
  }

  LineSpan* TakeReusableHolding(Rung rung) STRATA_REQUIRES(lock_) {
    for (size_t tries = 0; tries < kTries; ++tries) {
      HugeBlockPage* page = active_.WithReusable(rung);
      if (page == nullptr) return nullptr;
      const size_t at = page->reusable.NextSet(0);
      page->reusable.ClearRange(at, 1);
      active_.DropIfNotReusable(*page);
      LineSpan* span = LineSpan::HeadOf(page->base + at * kSpanSize);
      if (!span->Claim()) continue;
      ++stats_.recycled_spans;
      return span;
    }
    return nullptr;
  }

  // --- Open pages

  uintptr_t TakeOpenHolding(const BlockRequest& r, Supply& supply, Fresh fresh,
                            ReleasedRuns& released) STRATA_REQUIRES(lock_) {
    OpenRun& o = open_[r.rung];
    // In blocks from the start of the open page, or of the page that is opened next.
    size_t start = o.page == nullptr ? 0 : RoundUp(o.bump, std::min(r.align, kBlocksPerPage));
    size_t opened = o.page != nullptr;
    if (r.align > kBlocksPerPage || start + r.blocks > (opened + o.left) * kBlocksPerPage) {
      const HugeRun run = TakeRow(r, supply, fresh);
      if (run.empty()) return 0;
      if (o.page != nullptr) CloseOpen(o, supply, released);
      if (o.left > 0) released.Add(o.next, o.left);
      o = {nullptr, 0, run.base, run.pages, 0};
      start = opened = 0;
    }
    const size_t records = (start + r.blocks - 1) / kBlocksPerPage + 1 - opened;
    if (!records_.Make(records, supply.arena())) return 0;
    return Lay(o, r, start, supply, released);
  }

  HugeRun TakeRow(const BlockRequest& r, Supply& supply, Fresh fresh) STRATA_REQUIRES(lock_) {
    const size_t least = (r.blocks + kBlocksPerPage - 1) / kBlocksPerPage;
    const size_t wanted = r.blocks > kRunOver ? std::max(least, kPagesInRow) : 1;
    const size_t align = r.align << kBlockShift;
    if (wanted == 1 && align <= kHugePageSize && !spare_.empty()) {
      stats_.spare_pages = 0;
      return std::exchange(spare_, {});
    }
    if (fresh == Fresh::kNone) return {};
    const HugeRun run = supply.Take(wanted, align);
    return run.empty() && wanted > least ? supply.Take(least, align) : run;
  }

  // There is room behind `start`, and a record for each page that has to be opened.
  uintptr_t Lay(OpenRun& o, const BlockRequest& r, size_t start, Supply& supply,
                ReleasedRuns& released) STRATA_REQUIRES(lock_) {
    if (o.page == nullptr) OpenNext(o, r.rung, supply);
    if (start == kBlocksPerPage) {
      CloseOpen(o, supply, released);
      OpenNext(o, r.rung, supply);
      start = 0;
    }
    const uintptr_t p = o.page->base + (start << kBlockShift);
    stats_.live_blocks += r.blocks;
    if (start + r.blocks <= kBlocksPerPage) {
      o.page->Take(start, r.blocks, Stay::kResidual);
      o.bump = start + r.blocks;
    } else {
      o.page->TakeUntilEnd(start, r.blocks << kBlockShift, Stay::kResidual);
      for (size_t rest = r.blocks - (kBlocksPerPage - start); rest > 0; rest -= o.bump) {
        CloseOpen(o, supply, released);
        OpenNext(o, r.rung, supply);
        o.bump = std::min(rest, kBlocksPerPage);
        o.page->TakeOn(o.bump, rest == o.bump ? Part::kLast : Part::kMiddle, Stay::kResidual);
      }
    }
    if (o.bump == kBlocksPerPage) CloseOpen(o, supply, released);
    return p;
  }

  void OpenNext(OpenRun& o, Rung rung, Supply& supply) STRATA_REQUIRES(lock_) {
    STRATA_DCHECK(o.left > 0);
    HugeBlockPage* page = records_.Take();
    page->base = o.next;
    page->shard = this;
    page->rung = rung;
    page->state = BlockPageState::kOpen;
    supply.directory().Set(page->base, page);
    o = {page, 0, o.next + kHugePageSize, o.left - 1, supply.NowNs()};
    ++stats_.pages_opened;
    ++stats_.open_pages[rung];
  }

  void CloseOpen(OpenRun& o, Supply& supply, ReleasedRuns& released) STRATA_REQUIRES(lock_) {
    HugeBlockPage& page = *o.page;
    o.page = nullptr;
    o.bump = 0;
    --stats_.open_pages[page.rung];
    if (!page.AnyLive()) return Retire(page, supply, released);
    page.state = BlockPageState::kActive;
    ++stats_.active_pages[page.rung];
    active_.Add(page);
    deadlines_.Add(page, supply.NowNs());
    NoteNext();
  }

  // The open page: no more of its rung may come. Not one that was opened just now, because objects
  // that come and go would need a page each; nor in front of others, for objects that need a row.
  void Emptied(OpenRun& o, Supply& supply, ReleasedRuns& released) STRATA_REQUIRES(lock_) {
    if (o.left == 0 && supply.NowNs() - o.opened_ns > kPageSoonNs) {
      CloseOpen(o, supply, released);
    } else {
      o.bump = 0;
    }
  }

  // --- Active pages

  void Freed(HugeBlockPage& page, size_t at, size_t n, Supply& supply, ReleasedRuns& released)
      STRATA_REQUIRES(lock_) {
    page.Give(at, n);
    stats_.live_blocks -= n;
    if (page.state == BlockPageState::kOpen) {
      if (!page.AnyLive()) Emptied(open_[page.rung], supply, released);
    } else if (!page.AnyLive()) {
      LeaveLists(page);
      NoteNext();
      Retire(page, supply, released);
    } else if (!page.AnyResidual()) {
      Demote(page, supply.NowNs());
    } else {
      active_.Reorder(page, static_cast<int>(n));
    }
  }

  void Demote(HugeBlockPage& page, uint64_t now) STRATA_REQUIRES(lock_) {
    ++stats_.demotions;
    LeaveLists(page);
    page.MakeAllResidual();
    EnterLists(page, page.rung > kShortest ? page.rung - 1 : kShortest, now);
    NoteNext();
  }

  void PassDeadline(HugeBlockPage& page, uint64_t now) STRATA_REQUIRES(lock_) {
    ++stats_.deadlines_passed;
    if (page.rung < kLongest) ++stats_.promotions;
    LeaveLists(page);
    FindReusable(page);
    EnterLists(page, page.rung < kLongest ? page.rung + 1 : kLongest, now);
  }

  static void FindReusable(HugeBlockPage& page) {
    for (size_t i = 0; i < kSpansPerPage; ++i) {
      if (page.IsSpan(i) && LineSpan::HeadOf(page.base + i * kSpanSize)->PartlyFree())
        page.reusable.SetRange(i, 1);
    }
  }

  void LeaveLists(HugeBlockPage& page) STRATA_REQUIRES(lock_) {
    active_.Remove(page);
    deadlines_.Remove(page);
    --stats_.active_pages[page.rung];
  }
  void EnterLists(HugeBlockPage& page, int rung, uint64_t now) STRATA_REQUIRES(lock_) {
    page.rung = static_cast<Rung>(rung);
    active_.Add(page);
    deadlines_.Add(page, now);
    ++stats_.active_pages[page.rung];
  }
  void NoteNext() STRATA_REQUIRES(lock_) {
    const uint64_t next = deadlines_.Next();
    if (next != next_deadline_.load(std::memory_order_relaxed))
      next_deadline_.store(next, std::memory_order_relaxed);
  }

  // The page is on no list.
  void Retire(HugeBlockPage& page, Supply& supply, ReleasedRuns& released) STRATA_REQUIRES(lock_) {
    supply.directory().Set(page.base, nullptr);
    if (kSpare == SparePage::kOne && supply.shared() && spare_.empty()) {
      spare_ = {page.base, 1};
      stats_.spare_pages = 1;
    } else {
      released.Add(page.base, 1);
    }
    page.state = BlockPageState::kFree;
    ++stats_.pages_freed;
    records_.Keep(page);
  }

  Lock lock_{LockRank::kBlockPages};
  OpenRun open_[kRungs] STRATA_GUARDED_BY(lock_);
  HugeRun spare_ STRATA_GUARDED_BY(lock_);
  ActivePages active_;  // guarded by lock_, but for the summaries
  DeadlineLists deadlines_ STRATA_GUARDED_BY(lock_);
  BlockPageRecords records_ STRATA_GUARDED_BY(lock_);
  LifetimeStats stats_ STRATA_GUARDED_BY(lock_);
  // Read without the lock by all, and written rarely.
  alignas(64) std::atomic<uint32_t> meetings_{0};
  std::atomic<uint64_t> next_deadline_{DeadlineLists::kNever};  // written under lock_
};

}  // namespace strata
