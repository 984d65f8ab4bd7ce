// Decides how the per-CPU caches share their memory (papers §2.8, §4; heterogeneous caches): which
// ones get more, from whom, and which classes of a cache give way. Pure functions from a snapshot
// to a plan; cpu_cache_remote.h takes the snapshot and acts. Sits in cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// One cache as the background thread saw it.
struct CacheState {
  size_t limit = 0;     // bytes its classes may have room for
  size_t room = 0;      // bytes they do have room for
  uint64_t misses = 0;  // of both kinds, in all classes, since the last plan
  bool in_use = false;  // was ever used
};

// All in relation to the share: the bytes each cache in use brings to the total.
struct ResizeOptions {
  size_t share = 0;
  size_t Floor() const { return share / 8; }   // what a cache keeps, so that it can show misses
  size_t Wanted() const { return share / 4; }  // what one that is short gets at a time
  size_t Piece() const { return share / 8; }   // the most that one gives at a time
};

// What each of so many caches in use brings to the total, in a process that has CPU time for `cpus`
// of them (0: for all): together the shares of that many, but each enough to show its misses.
inline size_t ShareWithin(size_t share, size_t caches, size_t cpus) {
  if (cpus == 0 || caches <= cpus) return share;
  const size_t part = share / caches * cpus;
  const size_t least = ResizeOptions{share}.Floor();
  return part > least ? part : least;
}

inline constexpr size_t kMostTakers = 5;
// Below this a cache is not short of anything (in 5 s).
inline constexpr uint64_t kMissesThatMatter = 100;

struct CacheMove {
  size_t from = 0;
  size_t to = 0;
  size_t bytes = 0;
};

// What the takers get of what is nobody's, then the moves between caches; in this order.
struct ResizePlan {
  static constexpr size_t kMostMoves = kMostTakers * 4;
  size_t takers = 0;
  size_t taker[kMostTakers];
  size_t from_pool[kMostTakers];
  size_t moves = 0;
  CacheMove move[kMostMoves];
  size_t next_donor = 0;  // where the round goes on next time
};

namespace cache_resizer_internal {

// The neediest first: the most misses among those that have used up their limit.
inline void PickTakers(const CacheState* caches, size_t n, ResizePlan& plan) {
  for (size_t i = 0; i < n; ++i) {
    const CacheState& c = caches[i];
    if (!c.in_use || c.misses < kMissesThatMatter || c.room < c.limit - c.limit / 8) continue;
    size_t at = plan.takers < kMostTakers ? plan.takers++ : kMostTakers;
    for (; at > 0 && caches[plan.taker[at - 1]].misses < c.misses; --at) {
      if (at < kMostTakers) plan.taker[at] = plan.taker[at - 1];
    }
    if (at < kMostTakers) plan.taker[at] = i;
  }
}

struct Turn {
  bool gave = false;
  bool took = false;
};
inline Turn TurnOf(const ResizePlan& plan, size_t cache) {
  Turn turn;
  for (size_t i = 0; i < plan.moves; ++i) {
    turn.gave |= plan.move[i].from == cache;
    turn.took |= plan.move[i].to == cache;
  }
  return turn;
}

}  // namespace cache_resizer_internal

// `pool`: bytes of the total that no cache has. Only a cache with clearly fewer misses gives to
// another, nobody gives twice or both gives and takes, and a cache at its floor gives nothing.
inline ResizePlan PlanResize(const CacheState* caches, size_t n, size_t pool, size_t next_donor,
                             const ResizeOptions& options) {
  using namespace cache_resizer_internal;
  ResizePlan plan;
  plan.next_donor = n == 0 ? 0 : next_donor % n;
  PickTakers(caches, n, plan);
  for (size_t t = 0; t < plan.takers; ++t) {
    const size_t taker = plan.taker[t];
    size_t wanted = options.Wanted();
    plan.from_pool[t] = pool < wanted ? pool : wanted;
    pool -= plan.from_pool[t];
    wanted -= plan.from_pool[t];
    if (TurnOf(plan, taker).gave) continue;
    for (size_t i = 0; i < n && wanted != 0 && plan.moves < ResizePlan::kMostMoves; ++i) {
      const size_t donor = plan.next_donor;
      const CacheState& d = caches[donor];
      const Turn turn = TurnOf(plan, donor);
      plan.next_donor = donor + 1 < n ? donor + 1 : 0;
      if (donor == taker || !d.in_use || turn.gave || turn.took || d.limit <= options.Floor() ||
          d.misses >= caches[taker].misses / 5 * 4) {
        continue;
      }
      size_t bytes = d.limit - options.Floor();
      if (bytes > options.Piece()) bytes = options.Piece();
      if (bytes > wanted) bytes = wanted;
      plan.move[plan.moves++] = {donor, taker, bytes};
      wanted -= bytes;
    }
  }
  return plan;
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
