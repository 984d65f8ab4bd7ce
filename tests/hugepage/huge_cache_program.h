// An instruction program for HugeCache: takes, gives and releases against a model of the ranges,
// and the published rule of its limit computed again from the history. A violation ends the
// process.
#pragma once

#include <algorithm>
#include <vector>

#include "hugepage/huge_cache.h"
#include "program_bytes.h"
#include "test_arena.h"

namespace strata::test {

class HugeCacheProgram {
 public:
  explicit HugeCacheProgram(ProgramBytes bytes) : bytes_(bytes) {
    STRATA_CHECK(map_.Cover({HugePageId(0), HugePages(kWindow)}));
  }

  void Run() {
    while (!bytes_.done()) {
      Step();
      Check();
    }
  }

  size_t steps() const { return steps_; }

 private:
  static constexpr size_t kWindow = 1024;
  enum State : char { kOut, kUsed, kCached };

  void Step() {
    ++steps_;
    now_ += bytes_.Below(400) * 1'000'000;
    switch (bytes_.Below(8)) {
      case 0:
      case 1:
      case 2:
        return Take(HugePages(1 + bytes_.Below(bytes_.Below(4) == 0 ? 40 : 4)));
      case 3:
      case 4:
      case 5:
        return Give();
      case 6:
        return Release(HugePages(1 + bytes_.Below(20)));
      default: {
        const HugePages before = cache_.limit();
        cache_.Adjust(now_);
        STRATA_CHECK(cache_.limit() <= before && cache_.limit() >= HugePages(10));
        if (bytes_.Below(4) == 0) now_ += 3'000'000'000;
      }
    }
  }

  size_t LongestCached() const {
    size_t longest = 0, run = 0;
    for (char c : state_) longest = std::max(longest, run = c == kCached ? run + 1 : 0);
    return longest;
  }

  void Set(HugeRange r, State from, State to) {
    for (size_t i = r.first.raw(); i < r.end().raw(); ++i) {
      STRATA_CHECK(state_[i] == from);
      state_[i] = to;
    }
  }

  void Take(HugePages n) {
    const bool fits = LongestCached() >= n.raw();
    const HugePages limit = cache_.limit();
    HugeRange r = cache_.TryTake(n, now_);
    STRATA_CHECK(r.empty() != fits);
    STRATA_CHECK(cache_.limit() >= limit &&
                 (!fits || cache_.limit() == limit));  // only a miss raises it
    STRATA_CHECK(fits ? ++hits_ == cache_.hits() : ++misses_ == cache_.misses());
    if (fits) {
      Set(r, kCached, kUsed);
    } else {
      const auto at =
          std::search_n(state_.begin(), state_.end(), static_cast<long>(n.raw()), char{kOut});
      if (at == state_.end()) return;
      r = {HugePageId(static_cast<size_t>(at - state_.begin())), n};
      Set(r, kOut, kUsed);
      cache_.NoteTaken(n, now_);
    }
    map_.SetState(r, HugePageState::kLarge);
    used_.push_back(r);
  }

  void Give() {
    if (used_.empty()) return;
    std::swap(used_[bytes_.Below(used_.size())], used_.back());
    const HugeRange r = used_.back();
    used_.pop_back();
    cache_.Give(r, now_);
    Set(r, kUsed, kCached);
  }

  void Release(HugePages n) {
    const HugeRange r = cache_.TakeForRelease(n, now_);
    STRATA_CHECK(r.length <= n && r.empty() == (LongestCached() == 0));
    if (r.empty()) return;
    Set(r, kCached, kOut);
    map_.SetState(r, HugePageState::kInFlight);
    if (bytes_.Below(4) == 0) {
      cache_.PutBack(r, now_);
      Set(r, kOut, kCached);
    } else {
      map_.SetState(r, HugePageState::kUnmapped);
    }
  }

  void Check() {
    HugePages used;
    for (const HugeRange& r : used_) used += r.length;
    STRATA_CHECK(cache_.usage() == used);
    STRATA_CHECK(cache_.size().raw() ==
                 static_cast<size_t>(std::count(state_.begin(), state_.end(), char{kCached})));
    size_t last_end = 0, seen = 0;
    cache_.ForEach([&](HugeRange r) {
      STRATA_CHECK(seen++ == 0 || r.first.raw() > last_end);  // in order, and neighbours are merged
      last_end = r.end().raw();
      for (size_t i = r.first.raw(); i < r.end().raw(); ++i) STRATA_CHECK(state_[i] == kCached);
    });
  }

  ProgramBytes bytes_;
  TestArena meta_;
  HugePageMap map_{meta_.arena(), HugePages(kWindow)};
  HugeCache cache_{map_};
  std::vector<char> state_ = std::vector<char>(kWindow, kOut);
  std::vector<HugeRange> used_;
  uint64_t now_ = 1'000'000'000'000;
  size_t hits_ = 0, misses_ = 0;
  size_t steps_ = 0;
};

}  // namespace strata::test
