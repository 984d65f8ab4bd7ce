// The object collector: looks at all guides of a domain, decides what is hot and what cold, moves
// objects between the heaps and gives advice on the pages they leave. After HADES and OBASE (arXiv
// 2603.00378). One round is a window. Sits in hotness; driven by a thread of the process
// (regions/hot_domains.cpp) or by strata_hot_collect.
//
// Bounds: rounds are so far apart that they take no more than a share of a CPU, and further while
// there is nothing to gain; a round moves so many bytes a second that passed; an epoch, in which
// operations are slower, takes about two milliseconds; if operations don't end, the round moves
// nothing; near a memory limit, without swap, nothing moves that needs a new block. A shelf that
// has no room takes nothing more in that round, and while that is all there is to do, rounds grow
// rare.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "hotness/hot_domain.h"
#include "hotness/mover.h"
#include "hotness/promotion_policy.h"
#include "strata/hot.h"

namespace strata {

struct CollectorOptions {
  uint64_t period_ns = 1'000'000'000;
  double target = 0.01;
  double cpu_share = 0.01;
  uint64_t bytes_per_second = uint64_t{256} << 20;
  strata_hot_reclaim reclaim = STRATA_HOT_RECLAIM_PAGEOUT;
};

// Written by the collector, read by anyone.
struct CollectorCounts {
  std::atomic<uint64_t> rounds{0}, epochs{0}, epochs_given_up{0};
  std::atomic<uint64_t> moves{0}, moved_bytes{0}, promotions{0}, demotions{0};
  std::atomic<uint64_t> in_use{0}, used{0}, no_memory{0}, near_limit{0};
  std::atomic<uint64_t> paged_out_bytes{0}, cpu_ns{0};
  std::atomic<uint32_t> cold_after{PromotionPolicy::kFirst};
  std::atomic<double> rate{0}, utilization{0};
};

enum class RoundBounds : uint8_t { kBounded, kAtOnce };

class ObjectCollector {
 public:
  ObjectCollector(HotDomain& domain, const CollectorOptions& options)
      : domain_(domain), mover_(domain.pool(), domain.scopes()), options_(options) {}

  // For another domain in the place of one that has ended.
  static void Renew(ObjectCollector& ended, const CollectorOptions& options);

  // False: a thread is at it already.
  bool Round(RoundBounds bounds);
  // It is this one, which destroys an object, say.
  bool RoundIsMine() const { return runner_.load(std::memory_order_relaxed) == Self(); }
  // At the end of a domain without objects.
  void GiveBackAll();
  // When the next should be, by the clock of the domain's memory.
  uint64_t due_ns() const { return due_ns_.load(std::memory_order_relaxed); }

  const CollectorCounts& counts() const { return counts_; }
  double target() const { return target_.load(std::memory_order_relaxed); }
  void set_target(double share) { target_.store(share, std::memory_order_relaxed); }

  // Held for each step of a round: a fork that has it finds no move half done.
  Lock& step_lock() { return step_; }
  void RenewInChild();

 private:
  struct Candidate {
    HotBlock* block;
    uint32_t index;
    HotHeap to;
  };
  static constexpr uint32_t kCandidates = 32768;

  struct Window {
    uint64_t used_bytes = 0, cold_used_bytes = 0, used_pages = 0;
    uint64_t moved = 0;
    uint64_t budget = 0;  // bytes that may yet be moved
    uint64_t round = 0;
    bool gave_up = false, refused = false;
    MayGrow grow = MayGrow::kYes;
  };

  static uintptr_t Self() { return reinterpret_cast<uintptr_t>(__builtin_thread_pointer()); }
  bool Prepare();
  void ScanShelf(HotShelf& shelf, Window& w);
  void ScanBlock(HotShelf& shelf, HotBlock* b, Window& w);
  void Note(HotShelf& shelf, HotBlock* b, uint32_t i, uintptr_t* last_page, Window& w);
  void Add(HotBlock* b, uint32_t i, HotHeap to, Window& w);
  void MoveAll(Window& w);
  bool BeginEpoch();
  void EndEpoch();
  void EndLists();
  uint64_t MoveOne(const Candidate& c, Window& w);
  static bool HasRefused(const HotShelf* shelf, const Window& w) {
    return shelf != nullptr && shelf->refused_in == w.round;
  }
  bool Relabel(HotBlock* b, HotHeap to);
  void Drain(HotShelf& shelf, Window& w);
  static bool HasHoles(const HotBlock& b, uint32_t in);
  void GiveBackEmpty(uint32_t keep, const HotBlock* here);
  void EndDraining();
  void Decide(const Window& w);
  void Reclaim(const Window& w);
  void PageOutUnderPressure(uint64_t cold_bytes);
  void ReclaimFromCgroup();
  void LeaveToDamon();
  AddressRange ColdRange() const;
  // Whether a block is left alone then until something comes in or is used.
  enum class Once : bool { kNo, kYes };
  uint64_t AdviseCold(PageAdvice advice, uint64_t most_bytes, Once once);
  void Schedule(const Window& w, uint64_t cpu_ns);
  void Count(MoveResult result, HotHeap from, HotHeap to, size_t bytes);

  HotDomain& domain_;
  Mover mover_;
  const CollectorOptions options_;
  CollectorCounts counts_;
  std::atomic<double> target_{options_.target};
  std::atomic<uint64_t> due_ns_{0};
  std::atomic<uintptr_t> runner_{0};  // the thread that runs a round
  Lock step_{LockRank::kHotRound};
  // The rest belongs to whoever runs a round.
  Candidate* candidates_ = nullptr;
  uint32_t waiting_ = 0;
  bool page_out_ = false;
  bool said_no_swap_ = false, said_refused_ = false;
  enum class DamonUse : uint8_t { kNotAsked, kWatches, kRefused } damon_ = DamonUse::kNotAsked;
  AddressRange watched_;
  uint64_t watched_ns_ = 0;  // since when
  uint32_t idle_rounds_ = 0;
  uint64_t last_round_ns_ = 0;
};

}  // namespace strata
