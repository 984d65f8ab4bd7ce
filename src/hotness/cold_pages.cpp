// What the kernel is advised of the cold heap's pages, by the backend that was chosen: paged out at
// once while few are missed, marked cold, reclaimed from the cgroup, or paged out bit by bit as TMO
// does (Weiner et al., ASPLOS 2022: a share of what is there, less the nearer the pressure is to a
// threshold). A part of the collector; sits in hotness.
#include <algorithm>

#include "base/message.h"
#include "hotness/object_collector.h"

namespace strata {
namespace {

// TMO's, as published in senpai: 0.05 % every 6 s at most, none from 0.1 % of waiting on. Ours come
// with each round and only concern pages found cold, so the share is larger.
constexpr uint32_t kMostPressurePer10k = 10;
constexpr double kShareAtNoPressure = 0.05;

// Between two changes of what DAMON watches: one of its own steps.
constexpr uint64_t kWatchAgainNs = 2'000'000'000;

}  // namespace

void ObjectCollector::Reclaim(const Window& w) {
  if (w.gave_up || options_.reclaim == STRATA_HOT_RECLAIM_NONE) return;
  const HotMemory& memory = domain_.pool().memory();
  const bool marks = options_.reclaim == STRATA_HOT_RECLAIM_COLD || !page_out_;
  if (marks) {
    AdviseCold(PageAdvice::kCold, ~uint64_t{0}, Once::kNo);
    return;
  }
  if (memory.free_swap(memory.context) == 0) {
    if (!said_no_swap_ && domain_.HeldIn(HotHeap::kCold).bytes != 0) {
      said_no_swap_ = true;
      Message().Text("no swap space is free: cold pages of hot_ptr objects stay in memory").Warn();
    }
    AdviseCold(PageAdvice::kCold, ~uint64_t{0}, Once::kNo);
    return;
  }
  if (options_.reclaim == STRATA_HOT_RECLAIM_CGROUP) return ReclaimFromCgroup();
  if (options_.reclaim == STRATA_HOT_RECLAIM_DAMON) return LeaveToDamon();
  if (options_.reclaim == STRATA_HOT_RECLAIM_PAGEOUT) {
    AdviseCold(PageAdvice::kPageOut, ~uint64_t{0}, Once::kYes);
    return;
  }
  PageOutUnderPressure(domain_.HeldIn(HotHeap::kCold).bytes);
}

void ObjectCollector::PageOutUnderPressure(uint64_t cold_bytes) {
  const HotMemory& memory = domain_.pool().memory();
  const uint32_t pressure = memory.pressure_per_10k(memory.context);
  if (pressure >= kMostPressurePer10k) return;
  const double share =
      kShareAtNoPressure * (1 - static_cast<double>(pressure) / kMostPressurePer10k);
  const auto most = static_cast<uint64_t>(static_cast<double>(cold_bytes) * share);
  AdviseCold(PageAdvice::kPageOut, std::max<uint64_t>(most, HotBlock::kBytes), Once::kYes);
}

// Marked cold they are the first that the kernel takes.
void ObjectCollector::ReclaimFromCgroup() {
  const HotMemory& memory = domain_.pool().memory();
  const uint64_t bytes = AdviseCold(PageAdvice::kCold, ~uint64_t{0}, Once::kYes);
  if (bytes == 0) return;
  if (memory.reclaim(memory.context, bytes)) {
    counts_.paged_out_bytes.fetch_add(bytes, std::memory_order_relaxed);
  } else if (!said_refused_) {
    said_refused_ = true;
    Message()
        .Text(
            "the cgroup's memory cannot be reclaimed: cold pages of hot_ptr objects stay until "
            "memory is short")
        .Warn();
  }
}

// From the first cold block to the last; what else lies there is watched with them.
AddressRange ObjectCollector::ColdRange() const {
  AddressRange range;
  domain_.ForEachShelf(HotHeap::kCold, [&](HotShelf& s) {
    for (HotBlock* b = s.first.load(std::memory_order_acquire); b != nullptr; b = b->next) {
      const uintptr_t at = b->base.load(std::memory_order_relaxed);
      const uintptr_t end = at + b->bytes.load(std::memory_order_relaxed);
      range.begin = range.end == 0 ? at : std::min(range.begin, at);
      range.end = std::max(range.end, end);
    }
  });
  return range;
}

// Asked once there is something cold, and again when it lies elsewhere, too. Where it cannot be had
// the pages are marked.
void ObjectCollector::LeaveToDamon() {
  const HotMemory& memory = domain_.pool().memory();
  const AddressRange cold = ColdRange();
  const uint64_t now_ns = memory.now_ns(memory.context);
  const bool first = damon_ == DamonUse::kNotAsked && cold.end != 0;
  const bool more = damon_ == DamonUse::kWatches && !watched_.holds(cold) &&
                    now_ns - watched_ns_ >= kWatchAgainNs;
  if (first || more) {
    watched_ = first ? cold
                     : AddressRange{std::min(watched_.begin, cold.begin),
                                    std::max(watched_.end, cold.end)};
    watched_ns_ = now_ns;
    const char* why =
        memory.watch(memory.context, watched_, first ? WatchOf::kFirst : WatchOf::kMore);
    if (why != nullptr && more) memory.unwatch(memory.context);
    damon_ = why == nullptr ? DamonUse::kWatches : DamonUse::kRefused;
    if (why != nullptr) {
      Message()
          .Text("DAMON cannot be used (")
          .Text(why)
          .Text("): cold pages of hot_ptr objects stay until memory is short")
          .Warn();
    }
  }
  if (damon_ == DamonUse::kRefused) AdviseCold(PageAdvice::kCold, ~uint64_t{0}, Once::kNo);
}

void ObjectCollector::GiveBackAll() {
  GiveBackEmpty(0, nullptr);
  const HotMemory& memory = domain_.pool().memory();
  if (damon_ == DamonUse::kWatches) memory.unwatch(memory.context);
  damon_ = DamonUse::kNotAsked;
}

// A round goes on in the child where what it destroys or moves has forked. DAMON watches the
// parent; a line from each child would be too many.
void ObjectCollector::RenewInChild() {
  if (!RoundIsMine()) runner_.store(0, std::memory_order_relaxed);
  if (damon_ == DamonUse::kWatches) damon_ = DamonUse::kRefused;
}

// Blocks into which something came, or out of which something was used and so moved, since they
// were last paged out. Returns the bytes; of those to be marked once, those in memory.
uint64_t ObjectCollector::AdviseCold(PageAdvice advice, uint64_t most_bytes, Once once) {
  const HotMemory& memory = domain_.pool().memory();
  uint64_t advised = 0;
  domain_.ForEachShelf(HotHeap::kCold, [&](HotShelf& s) {
    for (HotBlock* b = s.first.load(std::memory_order_acquire); b != nullptr; b = b->next) {
      const size_t bytes = b->bytes.load(std::memory_order_relaxed);
      if (bytes > most_bytes || !s.MarkAdvised(b, once == Once::kYes)) continue;
      most_bytes -= bytes;
      LockHolder hold(step_);
      auto* at = reinterpret_cast<void*>(b->base.load(std::memory_order_relaxed));
      if (!domain_.pool().Advise(at, bytes, advice)) {
        s.MarkRefused(b);
        if (!said_refused_) {
          said_refused_ = true;
          Message()
              .Text(
                  "the kernel refuses advice (madvise): cold pages of hot_ptr objects stay until "
                  "memory is short")
              .Warn();
        }
      } else if (advice == PageAdvice::kPageOut) {
        counts_.paged_out_bytes.fetch_add(bytes, std::memory_order_relaxed);
        advised += bytes;
      } else if (once == Once::kYes) {
        advised += memory.resident(memory.context, at, bytes);
      }
    }
  });
  return advised;
}

}  // namespace strata
