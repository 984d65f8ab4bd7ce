// HugeTracker: placement inside one hugepage, and its counts, against a plain model.
#include "hugepage/huge_tracker.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace strata {
namespace {

TEST(HugeTracker, TakesTheBestFitThenTheLowestAddress) {
  HugeTracker t;
  t.Init(HugePageId(3), HugeTracker::Memory::kZero);
  // used: [0,10) [12,20) [25,30) [32,256) -> free runs of 2, 5, 2
  t.TakeAt(0, 10);
  t.TakeAt(12, 8);
  t.TakeAt(25, 5);
  t.TakeAt(32, 224);
  EXPECT_EQ(t.longest(), 5u);
  EXPECT_EQ(t.Take(2, 1).at, 10u);
  EXPECT_EQ(t.Take(2, 1).at, 30u);
  EXPECT_EQ(t.longest(), 5u);
  EXPECT_EQ(t.Take(1, 1).at, 20u);
  EXPECT_EQ(t.longest(), 4u);
  EXPECT_EQ(t.PageAt(5), PageId(3 * 256 + 5));
}

TEST(HugeTracker, AlignsInsideALongerRun) {
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kZero);
  t.TakeAt(0, 3);
  EXPECT_EQ(t.Take(4, 16).at, 16u);
  EXPECT_EQ(t.longest(), 236u);
}

TEST(HugeTracker, KnowsWhatWasNeverTouched) {
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kZero);
  EXPECT_TRUE(t.Take(8, 1).zeroed);
  t.Give(0, 8);
  EXPECT_FALSE(t.Take(4, 1).zeroed);
  EXPECT_EQ(t.untouched(), 248u);
  t.Give(0, 4);
  t.NoteReleased(t.FreeBacked());
  EXPECT_TRUE(t.Take(4, 1).zeroed);
  HugeTracker reused;
  reused.Init(HugePageId(0), HugeTracker::Memory::kTouched);
  EXPECT_FALSE(reused.Take(1, 1).zeroed);
}

TEST(HugeTracker, PagesGoneWhileInUseAreReleasedWhenFreed) {
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kTouched);
  t.TakeAt(0, 4);
  t.NoteGone(0, 3);  // page 0 and half of page 1
  EXPECT_EQ(t.gone(), 3u);
  EXPECT_EQ(t.FirstUsedNative(), 3u);
  t.Give(0, 4);
  EXPECT_EQ(t.gone(), 0u);
  EXPECT_EQ(t.released(), 1u);
  EXPECT_EQ(t.free_backed(), 255u);
}

TEST(HugeTracker, AgreesWithAModelOverRandomUse) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    HugeTracker t;
    t.Init(HugePageId(1),
           random() % 2 == 0 ? HugeTracker::Memory::kZero : HugeTracker::Memory::kTouched);
    std::map<size_t, size_t> runs;  // at -> length
    std::string map(256, '.');
    size_t released = 0;
    for (int step = 0; step < 400; ++step) {
      const unsigned what = random() % 10;
      const size_t n = 1 + random() % (random() % 4 == 0 ? 60 : 4);
      if (what < 5 && n <= t.longest()) {
        const size_t at = t.Take(n, 1).at;
        ASSERT_EQ(map.substr(at, n).find('u'), std::string::npos);
        // Best fit: no shorter run, and none of the same length below, would do.
        size_t here = 0;
        const size_t start = map.rfind('u', at) == std::string::npos ? 0 : map.rfind('u', at) + 1;
        ASSERT_EQ(start, at);
        here = std::min(map.find('u', at), map.size()) - at;
        for (size_t i = 0; i < 256;) {
          if (map[i] == 'u') {
            ++i;
            continue;
          }
          const size_t end = std::min(map.find('u', i), map.size());
          const bool fits = end - i >= n, better = end - i < here || (end - i == here && i < at);
          ASSERT_FALSE(fits && better);
          i = end;
        }
        for (size_t i = at; i < at + n; ++i) map[i] = 'u';
        runs[at] = n;
      } else if (what < 8 && !runs.empty()) {
        auto it = std::next(runs.begin(), static_cast<long>(random() % runs.size()));
        t.Give(it->first, it->second);
        for (size_t i = it->first; i < it->first + it->second; ++i) map[i] = '.';
        runs.erase(it);
      } else if (what == 8 && !runs.empty()) {
        auto it = std::next(runs.begin(), static_cast<long>(random() % runs.size()));
        const size_t more = random() % 6, end = it->first + it->second;
        const bool room = end + more <= 256 && map.substr(end, more).find('u') == std::string::npos;
        ASSERT_EQ(t.TryGrow(it->first, it->second, it->second + more), room);
        if (room) {
          for (size_t i = end; i < end + more; ++i) map[i] = 'u';
          it->second += more;
        }
      } else if (what == 9 && random() % 4 == 0) {
        t.NoteReleased(t.FreeBacked());
        for (char& c : map) c = c == '.' ? 'x' : c;
      }
      released = static_cast<size_t>(std::count(map.begin(), map.end(), 'x'));
      const size_t used = static_cast<size_t>(std::count(map.begin(), map.end(), 'u'));
      size_t longest = 0, run = 0;
      for (char c : map) longest = std::max(longest, run = c == 'u' ? 0 : run + 1);
      ASSERT_EQ(t.longest(), longest);
      ASSERT_EQ(t.used(), used);
      ASSERT_EQ(t.allocations(), runs.size());
      ASSERT_EQ(t.released(), released);
      ASSERT_EQ(t.free_backed(), 256 - used - released);
    }
  }
}

TEST(HugeTracker, EachSurveyCountsAnew) {
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kTouched);
  t.NoteIdle(10, 1);
  t.NoteIdle(5, 1);
  EXPECT_EQ(t.IdleAt(1), 15u);
  EXPECT_EQ(t.IdleAt(2), 0u);  // which found nothing
  t.NoteIdle(3, 2);
  EXPECT_EQ(t.IdleAt(2), 3u);
  EXPECT_EQ(t.IdleAt(1), 0u);
  t.NoteIdle(kNativePerHugePage, 2);
  EXPECT_EQ(t.IdleAt(2), kNativePerHugePage);
}

TEST(HugeTracker, ACollapsedHugepageIsWhole) {
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kZero);
  t.TakeAt(0, 4);
  t.broken = t.split = true;
  t.NoteReleased(t.FreeBacked());
  t.NoteGone(0, 3);
  EXPECT_EQ(t.untouched(), 0u);  // nothing that is free is backed
  t.NoteCollapsed();
  EXPECT_FALSE(t.broken);
  EXPECT_FALSE(t.split);
  EXPECT_EQ(t.gone(), 0u);
  EXPECT_EQ(t.released(), 0u);
  EXPECT_EQ(t.untouched(), 252u);  // backed again, and zero
}

TEST(HugeTracker, ReusedPagesAreNotGone) {
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kTouched);
  t.TakeAt(0, 8);
  t.NoteGone(0, 6);
  t.NoteReused(2, 2);
  EXPECT_EQ(t.gone(), 4u);
  EXPECT_EQ(t.GoneIn(2, 2), 0u);
  EXPECT_EQ(t.GoneIn(0, 16), 4u);
  std::vector<std::pair<size_t, size_t>> there;
  t.ForNotGone(0, 8, [&](size_t native, size_t n) { there.emplace_back(native, n); });
  const std::vector<std::pair<size_t, size_t>> expected = {{2, 2}, {6, 2}};
  EXPECT_EQ(there, expected);
}

}  // namespace
}  // namespace strata
