// Decides how the per-CPU caches share their memory (Zhou et al., ASPLOS 2024, section 4.1): how
// much each may hold, and which classes of a cache give way. Pure functions from a snapshot to a
// plan; cache/limit_sharing.h takes the snapshot and acts. Sits in cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// One cache as the background thread saw it, and what the plan makes of it.
struct CacheState {
  size_t limit = 0;     // bytes its classes may have room for
  size_t room = 0;      // bytes they do have room for
  uint64_t misses = 0;  // of both kinds, in all classes, since the last plan by need
  bool in_use = false;  // was ever used
  bool rests = false;   // was drained because it idled
  bool woke = false;    // fills up again after it rested
  size_t target = 0;    // the plan: what its limit should be
};

// All in relation to the share: the bytes each cache in use brings to the total.
struct ResizeOptions {
  size_t share = 0;
  size_t Floor() const { return share / 8; }   // what a cache keeps, so that it can show misses
  size_t Wanted() const { return share / 4; }  // what one that is short gets at a time
  size_t Piece() const { return share / 8; }   // the most that one gives at a time
};

// Whether a cache has used up so much of what it may hold that it could use more.
inline bool IsFull(size_t room, size_t limit) { return room >= limit - limit / 8; }

// What each of so many caches in use brings to the total, in a process that has CPU time for `cpus`
// of them (0: for all): together the shares of that many, but each enough to show its misses.
inline size_t ShareWithin(size_t share, size_t caches, size_t cpus) {
  if (cpus == 0 || caches <= cpus) return share;
  const size_t part = share / caches * cpus;
  const size_t least = ResizeOptions{share}.Floor();
  return part > least ? part : least;
}

// What a plan looks at: only who rests and who woke, or also who misses most.
enum class LimitRound : bool { kRest, kNeed };

inline constexpr size_t kMostTakers = 5;
// Below this a cache is not short of anything (in 5 s).
inline constexpr uint64_t kMissesThatMatter = 100;

namespace cache_resizer_internal {

// Sets the targets, step by step. Invariant: the targets and what is free together are the total,
// if the limits were within it.
class LimitPlanner {
 public:
  LimitPlanner(CacheState* caches, size_t n, const ResizeOptions& options)
      : caches_(caches), n_(n), options_(options) {
    size_t total = 0;
    size_t limits = 0;
    for (size_t i = 0; i < n; ++i) {
      caches[i].target = caches[i].limit;
      limits += caches[i].limit;
      total += caches[i].in_use ? options.share : 0;
    }
    free_ = total > limits ? total - limits : 0;
  }

  void LowerThoseThatRest() {
    for (size_t i = 0; i < n_; ++i) {
      CacheState& c = caches_[i];
      if (!c.rests || c.limit <= options_.Floor()) continue;
      free_ += c.limit - options_.Floor();
      c.target = options_.Floor();
    }
  }

  // Up to a share, at the expense of those that have more.
  void RestoreThoseThatWoke() {
    const size_t share = options_.share;
    for (size_t i = 0; i < n_; ++i) {
      CacheState& c = caches_[i];
      if (!c.woke || c.target >= share) continue;
      TakeFree(c, share - c.target);
      for (size_t d = 0; d < n_ && c.target < share; ++d) {
        const size_t extra = caches_[d].target > share ? caches_[d].target - share : 0;
        Move(caches_[d], c, Less(extra, share - c.target));
      }
    }
  }

  // Those with the most misses get something of what is free, then from the others in turn. Only a
  // cache with clearly fewer misses gives, nobody gives twice or both gives and takes, and a cache
  // at its floor gives nothing. Returns where the round goes on next time.
  size_t RaiseTheNeediest(size_t next_donor) {
    if (n_ == 0) return 0;
    next_donor %= n_;
    size_t takers[kMostTakers];
    const size_t count = PickTakers(takers);
    size_t donors = 0;
    for (size_t t = 0; t < count; ++t) {
      CacheState& taker = caches_[takers[t]];
      if (taker.target < taker.limit) continue;
      const size_t goal = taker.target + options_.Wanted();
      TakeFree(taker, options_.Wanted());
      for (size_t i = 0; i < n_ && taker.target < goal && donors < kMostDonors; ++i) {
        CacheState& d = caches_[next_donor];
        next_donor = next_donor + 1 < n_ ? next_donor + 1 : 0;
        if (&d == &taker || !MayGiveTo(taker, d)) continue;
        ++donors;
        const size_t most = Less(d.limit - options_.Floor(), options_.Piece());
        Move(d, taker, Less(most, goal - taker.target));
      }
    }
    return next_donor;
  }

 private:
  // Each costs fences.
  static constexpr size_t kMostDonors = kMostTakers * 4;

  static size_t Less(size_t a, size_t b) { return a < b ? a : b; }

  // The neediest first: the most misses among those that have used up their limit.
  size_t PickTakers(size_t* takers) const {
    size_t count = 0;
    for (size_t i = 0; i < n_; ++i) {
      const CacheState& c = caches_[i];
      if (!c.in_use || c.misses < kMissesThatMatter || !IsFull(c.room, c.target)) continue;
      size_t at = count < kMostTakers ? count++ : kMostTakers;
      for (; at > 0 && caches_[takers[at - 1]].misses < c.misses; --at) {
        if (at < kMostTakers) takers[at] = takers[at - 1];
      }
      if (at < kMostTakers) takers[at] = i;
    }
    return count;
  }

  bool MayGiveTo(const CacheState& taker, const CacheState& d) const {
    return d.in_use && d.target == d.limit && d.limit > options_.Floor() &&
           d.misses < taker.misses / 5 * 4;
  }

  void TakeFree(CacheState& to, size_t most) {
    const size_t bytes = Less(free_, most);
    free_ -= bytes;
    to.target += bytes;
  }
  static void Move(CacheState& from, CacheState& to, size_t bytes) {
    from.target -= bytes;
    to.target += bytes;
  }

  CacheState* caches_;
  size_t n_;
  ResizeOptions options_;
  size_t free_ = 0;  // bytes of the total in no target
};

}  // namespace cache_resizer_internal

// The one rule by which limits move; sets the targets. A cache that rests keeps its floor, and one
// that wakes has its share back. In a round by need those that miss most get more as well.
// `next_donor`: what the last round returned; returns the same for the next.
inline size_t PlanLimits(CacheState* caches, size_t n, LimitRound round, size_t next_donor,
                         const ResizeOptions& options) {
  cache_resizer_internal::LimitPlanner planner(caches, n, options);
  planner.LowerThoseThatRest();
  planner.RestoreThoseThatWoke();
  return round == LimitRound::kNeed ? planner.RaiseTheNeediest(next_donor) : next_donor;
}

// One class of a cache that has to give room up.
struct ClassRoom {
  uint32_t size = 0;    // bytes of an object
  uint32_t room = 0;    // objects
  uint32_t keep = 0;    // the plan: objects it keeps room for
  bool missed = false;  // since the last plan
};

// Sets `keep` so that at least `bytes` come free, if there is that much. Larger classes first
// (most objects are small): all of those that did not miss, then half of those that did, and the
// rest only where it must be. A class left with nothing gets room again at its next miss.
inline void PlanShrink(ClassRoom* classes, size_t n, size_t bytes) {
  size_t freed = 0;
  for (size_t i = 0; i < n; ++i) classes[i].keep = classes[i].room;
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t i = n; i-- > 0 && freed < bytes;) {
      ClassRoom& c = classes[i];
      if (c.keep == 0 || (pass == 0 && c.missed)) continue;
      const size_t most = pass == 1 ? c.keep - c.keep / 2 : c.keep;
      const size_t needed = (bytes - freed + c.size - 1) / c.size;
      const size_t give = needed < most ? needed : most;
      c.keep -= static_cast<uint32_t>(give);
      freed += give * c.size;
    }
  }
}

}  // namespace strata
