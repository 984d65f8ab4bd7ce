// When the next sample is due: each thread counts the bytes it allocates down to a point drawn from
// the exponential distribution, so that every byte has the same chance whatever the sizes around it
// (as in TCMalloc: google/tcmalloc, docs/sampling.md). Sits in profile; lies in the thread's TLS.
//
// The count is in two parts. The fast path takes from `stretch` alone, and a stretch is at most
// kMostStretch bytes: at its end the thread looks here, finds a changed interval, and starts the
// next stretch of what is left. Used by its own thread only.
//
// A thread that allocates gigabytes a second would spend much of its time on samples that tell
// nothing new. So long intervals are a promise of cheapness: where samples come less than 0.1 ms
// apart the thread draws from longer and longer intervals, and each sample's weight follows the one
// it was drawn with, so the estimates stay unbiased; but for blocks that grow under another
// interval than they were allocated under. Intervals below kThinnedFrom are taken at their word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/sample_math.h"
#include "span/size_classes.h"

namespace strata {

// Greater intervals than this are as good as none.
inline constexpr size_t kMostSampleInterval = size_t{1} << 40;

// The interval in force. A new one is a new epoch.
struct SampleRate {
  size_t interval = 0;  // mean bytes between samples; 0: none are taken
  uint32_t epoch = 0;   // never 0
};

// How many bytes a thread may count on the fast path before it looks here; no more than kAllowed,
// which also makes the one compare of the fast path find sizes that are no class's.
enum class Stretches : size_t { kNone = 0, kAllowed = kMaxClassSize };

struct SampleCountdown {
  static constexpr size_t kMostStretch = static_cast<size_t>(Stretches::kAllowed);

  size_t stretch = 0;
  // Packed: what follows this in the thread's state lies in the padding behind it.
  uint64_t beyond : 48 = 0;  // from the end of the stretch to the sample
  // When the last sample was, in kTimeUnitNs, of which few bits are kept: a gap of seconds may be
  // taken for a short one now and then, which costs a sample and biases nothing.
  uint64_t last_sample : 16 = 0;
  uint64_t random = 0;      // of a xorshift generator; 0: not seeded
  uint32_t epoch : 20 = 0;  // of the interval that the point was drawn for, its low bits
  // Powers of two by which intervals are longer than the rate says: of the point that is drawn, of
  // the point before it (the last sample), of the next.
  uint32_t thinning : 4 = 0;
  uint32_t thinning_of_sample : 4 = 0;
  uint32_t next_thinning : 4 = 0;

  void Seed(uint64_t seed) {
    // splitmix64: seeds that differ in one bit give unrelated states.
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
    seed ^= seed >> 31;
    random = seed == 0 ? 1 : seed;
  }

  // Ends the stretch, so that the next allocation comes here and not to the fast path.
  void Pause() {
    beyond = (beyond + stretch) & kBeyondMask;
    stretch = 0;
  }

  // Counts `bytes`, which the stretch does not hold. Returns whether a sample falls in them. The
  // point is drawn anew after each sample and for a new interval: the distribution has no memory,
  // so neither favours anything.
  bool Spend(size_t bytes, SampleRate rate, Stretches allowed) {
    if (epoch != (rate.epoch & kEpochMask)) {
      next_thinning = 0;
      Draw(rate);
    }
    if (SpendIfNothingDue(bytes, rate, allowed)) return false;
    thinning_of_sample = thinning;
    Draw(rate);
    Divide(beyond, allowed);
    return true;
  }

  // Counts `bytes`, which the stretch does not hold, if no sample falls in them and the rate is the
  // one that the point was drawn for. Else nothing is done.
  bool SpendIfNothingDue(size_t bytes, SampleRate rate, Stretches allowed) {
    if (epoch != (rate.epoch & kEpochMask)) return false;
    const uint64_t left = stretch + beyond;
    if (rate.interval == 0) {
      Divide(kMostStretch, allowed);
      return true;
    }
    if (left <= bytes) return false;
    Divide(left - bytes, allowed);
    return true;
  }

  // For a thread without stretches: whether `bytes` can be counted and nothing else is due.
  bool MaySpend(size_t bytes, SampleRate rate) const {
    return epoch == (rate.epoch & kEpochMask) && beyond > bytes;
  }
  bool HasBeyond(size_t bytes) const { return beyond > bytes; }
  // Not more than there are. The low bits of their word: so nothing is borrowed from the others,
  // and no mask is needed.
  void SpendBeyond(size_t bytes) {
    uint64_t word;
    __builtin_memcpy(&word, &stretch + 1, sizeof(word));
    word -= bytes;
    __builtin_memcpy(&stretch + 1, &word, sizeof(word));
  }

  // The mean bytes between samples: now, and when the last sample was drawn.
  double IntervalInForce(SampleRate rate) const { return Thinned(rate, thinning); }
  double IntervalOfSample(SampleRate rate) const { return Thinned(rate, thinning_of_sample); }

  // After each sample.
  void NoteSample(uint64_t now_ns, SampleRate rate) {
    const auto now = static_cast<uint16_t>(now_ns / kTimeUnitNs);
    const auto gap = static_cast<uint16_t>(now - last_sample);
    last_sample = now;
    if (rate.interval < kThinnedFrom) return;
    if (gap < kShortestGap && thinning < kMostThinning) {
      next_thinning = (thinning + 1u) & 15;
    } else if (gap > 4 * kShortestGap && thinning > 0) {
      next_thinning = (thinning - 1u) & 15;
    }
  }

 private:
  static constexpr uint32_t kEpochMask = (1u << 20) - 1;
  static constexpr uint64_t kBeyondMask = (uint64_t{1} << 48) - 1;
  static constexpr uint64_t kMostBeyond = kBeyondMask - kMostStretch;
  static constexpr size_t kThinnedFrom = size_t{2} << 20;
  static constexpr uint64_t kTimeUnitNs = 25'000;
  static constexpr uint16_t kShortestGap = 4;
  static constexpr unsigned kMostThinning = 12;

  static double Thinned(SampleRate rate, unsigned power) {
    return static_cast<double>(rate.interval) * static_cast<double>(uint64_t{1} << power);
  }
  uint64_t Random() {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
  }

  // At least 1: the sample is in the byte that is counted last.
  void Draw(SampleRate rate) {
    epoch = rate.epoch & kEpochMask;
    stretch = 0;
    thinning = next_thinning;
    const double uniform = (static_cast<double>(Random() >> 11) + 0.5) / 9007199254740992.0;
    const auto drawn = static_cast<uint64_t>(-NaturalLog(uniform) * IntervalInForce(rate)) + 1;
    beyond = (drawn < kMostBeyond ? drawn : kMostBeyond) & kBeyondMask;
  }

  void Divide(uint64_t left, Stretches allowed) {
    const auto most = static_cast<uint64_t>(allowed);
    const uint64_t now = left < most ? left : most;
    beyond = (left - now) & kBeyondMask;
    stretch = static_cast<size_t>(now);
  }
};

}  // namespace strata
