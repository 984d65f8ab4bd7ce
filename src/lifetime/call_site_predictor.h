// Lifetimes learned from the heap's own frees, without a model: of every call site some objects are
// watched, and what 95 of 100 of them did is what the next is predicted to do. A call site is told
// apart by what is in registers (return address, stack height, size); after so many hits its
// prediction is made anew, and the longer of the old and the new one stays, because the heap bears
// too long a prediction better than too short a one.
// Maas et al., CACM 67(4), 2024, sections 2.1 to 2.3. Sits in lifetime.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lock.h"
#include "lifetime/lifetime_ladder.h"

namespace strata {

template <class Clock>
class CallSitePredictor {
 public:
  static constexpr uint32_t kSampleAll = 32;    // of the first objects of a site
  static constexpr uint32_t kSampleOneIn = 64;  // of all others, until the site is well known
  static constexpr uint32_t kSampleFewer = 256;
  static constexpr uint32_t kWellKnown = 4096;  // hits
  static constexpr uint32_t kRecheck = 1000;    // hits
  static constexpr unsigned kEnough = 8;        // observations before the first prediction
  // Most processes look at the clock more often; after more than this one was stopped, had nothing
  // to do, or the clock jumped: no object aged. One that is as slow as that learns of no object
  // that it lives long; the deadlines of the pages say so then.
  static constexpr uint64_t kMostBetweenLooksNs = 30'000'000'000;

  constexpr CallSitePredictor() = default;

  LifetimeClass ClassOf(size_t bytes, uintptr_t call_site) {
    const uint64_t hash = Hash(bytes, call_site);
    Site& site = SiteOf(hash);
    if (site.tag.load(std::memory_order_relaxed) != TagOf(hash)) Replace(site, TagOf(hash));
    return site.predicted.load(std::memory_order_relaxed);
  }

  // Nothing is written that threads share, but for few objects and once a thread: two that allocate
  // at one site would wait for each other's line.
  void Allocated(void* p, size_t bytes, uintptr_t call_site) {
    const uint64_t hash = Hash(bytes, call_site);
    Site& site = SiteOf(hash);
    const uint32_t hits = site.hits.load(std::memory_order_relaxed);
    if (STRATA_UNLIKELY(hits < kSampleAll)) return Hit(site, hits, 1, p, hash);
    if (STRATA_UNLIKELY(ThisThreads().left-- == 0)) HitAtStep(site, hits, p, hash);
  }

  void Freed(void* p) {
    const auto address = reinterpret_cast<uintptr_t>(p);
    if (watched_[SlotOf(address)].load(std::memory_order_relaxed) == address) WatchedFreed(address);
  }

  // What has been learned of a call site, for tests and statistics.
  LifetimeClass Predicted(size_t bytes, uintptr_t call_site) const {
    const uint64_t hash = Hash(bytes, call_site);
    const Site& site = sites_[hash % kSites];
    return site.tag.load(std::memory_order_relaxed) == TagOf(hash)
               ? site.predicted.load(std::memory_order_relaxed)
               : LifetimeClass::kUnknown;
  }
  template <class F>
  void VisitLocks(F f) {
    f(lock_);
  }

 private:
  static constexpr size_t kSites = 4096;
  static constexpr size_t kSlots = 1024;
  static constexpr size_t kLooked = 4;
  static constexpr uint8_t kWatchedOfSite = 16;
  static constexpr uint32_t kDisplaceOneIn = 16;

  struct Site {
    std::atomic<uint32_t> tag{0};
    std::atomic<uint32_t> hits{0};
    std::atomic<LifetimeClass> predicted{LifetimeClass::kUnknown};
    // Watched objects by how long they lived, or do already. These are guarded by lock_, and
    // halved before they overflow.
    uint8_t died[kRungs] = {};
    uint8_t alive[kRungs] = {};
    uint8_t watched = 0;             // now
    bool for_the_time_being = true;  // `predicted`
  };
  // A watched object; where it lies is in watched_.
  struct Watched {
    uint64_t born = 0;
    uint32_t tag = 0;
    uint16_t site = 0;
    Rung counted = kRungs;  // as alive for so long; kRungs: not at all
  };

  // The steps in which a thread goes from one object that may be watched to the next.
  struct Pace {
    uint32_t left = 0;    // objects that come before it
    uint32_t random = 0;  // 0: the thread has not begun

    // Evenly, of 0 to n - 1; n: a power of two.
    uint32_t Draw(uint32_t n) {
      random = random * 1664525 + 1013904223;
      return static_cast<uint32_t>(Mix(random) >> 32) & (n - 1);
    }
    // Whether the object is the last of a step, and not just the thread's first. Steps are of no
    // even length, which a program may go in, too.
    bool EndsStep() {
      constexpr uint32_t kLongestStep = 2 * kSampleOneIn;
      if (random == 0) {
        // Each of many threads may allocate less than a step, so they begin anywhere within one.
        // Their pointers don't tell them apart: threads that follow each other have the same.
        static constinit std::atomic<uint32_t> begun{0};
        random = begun.fetch_add(1, std::memory_order_relaxed) * 2 + 1;
        const uint32_t one = Draw(kLongestStep), other = Draw(kLongestStep);
        left = std::min(one, other);  // as from anywhere in a step to its end
        if (left != 0) return --left, false;
      }
      left = Draw(kLongestStep);
      return true;
    }
  };
  static Pace& ThisThreads() {
    static constinit thread_local Pace pace;
    return pace;
  }

  STRATA_NOINLINE void HitAtStep(Site& site, uint32_t hits, void* p, uint64_t hash) {
    Pace& pace = ThisThreads();
    if (!pace.EndsStep()) return;
    // All sites have the same steps, so a well-known one leaves most of its out.
    const bool well_known = hits >= kWellKnown;
    if (well_known && pace.Draw(kSampleFewer / kSampleOneIn) != 0) return;
    Hit(site, hits, well_known ? kSampleFewer : kSampleOneIn, p, hash);
  }
  // The object is watched, for so many. Hits of two threads may be counted as one; nothing depends
  // on it. Those of a site that lost its place since go to nobody.
  STRATA_NOINLINE void Hit(Site& site, uint32_t hits, uint32_t more, void* p, uint64_t hash) {
    if (site.tag.load(std::memory_order_relaxed) != TagOf(hash)) return;
    if (site.hits.compare_exchange_strong(hits, hits + more, std::memory_order_relaxed) &&
        hits / kRecheck != (hits + more) / kRecheck) {
      Recheck(site);
    }
    Watch(p, hash);
  }

  static uint64_t Mix(uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  }
  // Sizes count by their eighths of a doubling.
  static uint64_t Hash(size_t bytes, uintptr_t call_site) {
    const auto width = static_cast<unsigned>(std::bit_width(bytes | 15));
    const uint64_t step = width << 3 | (bytes >> (width - 4) & 7);
    const uint64_t hash = Mix(call_site + (step << 48));
    return hash ^ hash >> 29;
  }
  static uint32_t TagOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }
  Site& SiteOf(uint64_t hash) { return sites_[hash % kSites]; }
  static size_t SlotOf(uintptr_t p) { return Mix(p) >> 40 & (kSlots - 1); }
  static Rung RungOfAge(uint64_t ns) {
    Rung r = 0;
    while (r < kLongest && ns >= BoundNs(r)) ++r;
    return r;
  }

  // The time in which objects age. It never goes back, and leaves out when nobody looked.
  uint64_t Now() STRATA_REQUIRES(lock_) {
    const uint64_t clock_ns = clock_.NowNs();
    const uint64_t passed_ns = clock_ns - looked_ns_;  // wraps where the clock went back
    if (passed_ns <= kMostBetweenLooksNs) lived_ns_ += passed_ns;
    looked_ns_ = clock_ns;
    return lived_ns_;
  }

  // Another call site had this place.
  void Replace(Site& site, uint32_t tag) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    site.predicted.store(LifetimeClass::kUnknown, std::memory_order_relaxed);
    site.hits.store(0, std::memory_order_relaxed);
    std::fill(site.died, site.died + kRungs, uint8_t{0});
    std::fill(site.alive, site.alive + kRungs, uint8_t{0});
    site.watched = 0;
    site.for_the_time_being = true;
    site.tag.store(tag, std::memory_order_relaxed);
  }

  void Watch(void* p, uint64_t hash) STRATA_EXCLUDES(lock_) {
    if (!lock_.TryAcquire()) return;  // another one will do
    const uint64_t now = Now();
    LookAtSome(now);
    const auto address = reinterpret_cast<uintptr_t>(p);
    const size_t slot = SlotOf(address);
    Site& site = SiteOf(hash);
    // Those that are watched long say most, and a site that allocates much would displace all
    // others: so mostly they stay.
    const bool taken = watched_[slot].load(std::memory_order_relaxed) != 0;
    if ((!taken && site.watched < kWatchedOfSite) || ++passed_over_ % kDisplaceOneIn == 0) {
      if (taken) NoLongerWatched(details_[slot]);
      details_[slot] = {now, TagOf(hash), static_cast<uint16_t>(hash % kSites), kRungs};
      if (site.watched < UINT8_MAX) ++site.watched;
      watched_[slot].store(address, std::memory_order_relaxed);
    }
    lock_.Release();
  }

  STRATA_NOINLINE void WatchedFreed(uintptr_t address) STRATA_EXCLUDES(lock_) {
    if (!lock_.TryAcquire()) return;
    const size_t slot = SlotOf(address);
    if (watched_[slot].load(std::memory_order_relaxed) == address) {
      Watched& w = details_[slot];
      Count(w, &Site::died, RungOfAge(Now() - w.born));
      NoLongerWatched(w);
      watched_[slot].store(0, std::memory_order_relaxed);
    }
    lock_.Release();
  }

  void NoLongerWatched(const Watched& w) STRATA_REQUIRES(lock_) {
    Site& site = sites_[w.site];
    if (site.tag.load(std::memory_order_relaxed) == w.tag && site.watched > 0) --site.watched;
  }

  // Objects that live are evidence, too: the longest would else be heard of last.
  void LookAtSome(uint64_t now) STRATA_REQUIRES(lock_) {
    for (size_t i = 0; i < kLooked; ++i, next_look_ = (next_look_ + 1) % kSlots) {
      if (watched_[next_look_].load(std::memory_order_relaxed) == 0) continue;
      Watched& w = details_[next_look_];
      const Rung age = RungOfAge(now - w.born);
      if (age == kShortest || age == w.counted) continue;
      Count(w, &Site::alive, age);
      w.counted = age;
    }
  }

  void Count(const Watched& w, uint8_t (Site::*as)[kRungs], Rung rung) STRATA_REQUIRES(lock_) {
    Site& site = sites_[w.site];
    if (site.tag.load(std::memory_order_relaxed) != w.tag) return;  // replaced meanwhile
    if (w.counted != kRungs && site.alive[w.counted] > 0) --site.alive[w.counted];
    if (++(site.*as)[rung] == UINT8_MAX) {
      for (uint8_t& n : site.died) n /= 2;
      for (uint8_t& n : site.alive) n /= 2;
    }
    if (site.for_the_time_being) Predict(site);
  }

  STRATA_NOINLINE void Recheck(Site& site) STRATA_EXCLUDES(lock_) {
    if (!lock_.TryAcquire()) return;
    Predict(site);
    lock_.Release();
  }

  void Predict(Site& site) STRATA_REQUIRES(lock_) {
    unsigned at_risk = 0;
    Rung oldest = 0;
    for (Rung r = 0; r < kRungs; ++r) {
      at_risk += site.died[r] + site.alive[r];
      if (site.alive[r] > 0) oldest = r;
    }
    if (at_risk < kEnough) return;
    // Who is alive on a rung has not been at the risk of all of it.
    float surviving = 1;
    for (Rung r = 0; r < kRungs; ++r) {
      at_risk -= site.alive[r];
      if (at_risk > 0) surviving *= 1 - float(site.died[r]) / float(at_risk);
      at_risk -= site.died[r];
      if (surviving <= 0.05f) return Found(site, r);
    }
    if (!site.for_the_time_being) return;
    const auto guess = static_cast<Rung>(oldest + 2);
    site.predicted.store(ClassOfRung(std::min(guess, kLongest)), std::memory_order_relaxed);
  }
  static void Found(Site& site, Rung rung) {
    const LifetimeClass fresh = ClassOfRung(rung);
    const LifetimeClass old = site.predicted.load(std::memory_order_relaxed);
    site.predicted.store(site.for_the_time_being ? fresh : std::max(old, fresh),
                         std::memory_order_relaxed);
    site.for_the_time_being = false;
  }
  static LifetimeClass ClassOfRung(Rung r) { return static_cast<LifetimeClass>(r + 1); }

  Lock lock_{LockRank::kSampler};
  uint64_t looked_ns_ STRATA_GUARDED_BY(lock_) = 0;  // by the clock
  uint64_t lived_ns_ STRATA_GUARDED_BY(lock_) = 0;   // see Now
  size_t next_look_ STRATA_GUARDED_BY(lock_) = 0;
  uint32_t passed_over_ STRATA_GUARDED_BY(lock_) = 0;
  Watched details_[kSlots] STRATA_GUARDED_BY(lock_);
  std::atomic<uintptr_t> watched_[kSlots] = {};  // written under lock_
  Site sites_[kSites];
  [[no_unique_address]] Clock clock_;
};

}  // namespace strata
