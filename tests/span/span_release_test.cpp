// CentralFreeList: native pages inside spans in use, which of them are given back, which spans are
// searched and when again, and what the source is told. IdleSearch alone: idle_search_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "central_free_list_fixture.h"

namespace strata::test {
namespace {

using SpanReleaseTest = CentralFreeListTest;

TEST(SpanRelease, ReleasesExactlyTheNativePagesWithoutLiveObjects) {
  // 1280 B: objects lie across native pages.
  for (const size_t size : {size_t{8}, size_t{64}, size_t{1280}, size_t{6144}, size_t{20480}}) {
    SCOPED_TRACE(size);
    FakeSource source;
    TestCentral list;
    const SizeClass c = ClassOfSize(size);
    const ClassInfo& k = InfoOf(c);
    list.Init(c, &source);
    for (size_t survivor = 0; survivor < k.objects; survivor += 1 + k.objects / 13) {
      std::vector<void*> all(k.objects);
      for (size_t got = 0; got < all.size();)
        got += list.Take(&all[got], std::min(kMaxBatch, all.size() - got));
      std::sort(all.begin(), all.end());
      char* live = static_cast<char*>(all[survivor]);
      memset(live, 0x5a, k.size);
      all.erase(all.begin() + static_cast<long>(survivor));
      for (size_t i = 0; i < all.size(); i += kMaxBatch)
        list.Give(&all[i], std::min(kMaxBatch, all.size() - i));
      const size_t bytes = list.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests);
      const size_t first = reinterpret_cast<uintptr_t>(live) >> kNativePageShift;
      const size_t last = (reinterpret_cast<uintptr_t>(live) + k.size - 1) >> kNativePageShift;
      EXPECT_EQ(bytes, (k.pages * kNativePerPage - (last - first + 1)) * kNativePageSize);
      EXPECT_EQ(source.ReleasedPages(), bytes >> kNativePageShift);
      EXPECT_EQ(std::count(live, live + k.size, 0x5a), static_cast<long>(k.size));
      // Nothing is left to give back.
      EXPECT_EQ(list.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 0u);
      void* object = live;
      list.Give(&object, 1);
      list.ReleaseEmpty(UINT32_MAX);
      EXPECT_EQ(source.ReleasedPages(), 0u);
    }
  }
}

TEST_F(SpanReleaseTest, ReleaseIdleSparesSpansTouchedSince) {
  Use(1024);
  list_.set_tick(10);
  std::vector<void*> objects = Take(32);
  Give({objects.begin() + 1, objects.end()});
  EXPECT_EQ(list_.ReleaseIdle(10, SIZE_MAX, Program::kRests), 0u);
  EXPECT_EQ(source_.release_calls, 0u);
  // It was too fresh, not scanned: a later call finds it.
  EXPECT_EQ(list_.ReleaseIdle(11, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
}

TEST_F(SpanReleaseTest, AReusedPageIsNotedOnce) {
  Use(1024);
  std::vector<void*> objects = Take(32);
  std::sort(objects.begin(), objects.end());
  Give({objects.begin() + 4, objects.end()});
  ASSERT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
  // Four objects a native page: the next five touch two of them.
  for (void* p : Take(5)) EXPECT_FALSE(source_.Released(p));
  EXPECT_EQ(source_.ReleasedPages(), 5u);
  EXPECT_EQ(source_.reused_calls, 1u);
}

// What a refill takes from many spans is reported in a few calls, and never under the list's lock:
// the page heap may read files and release memory then.
TEST_F(SpanReleaseTest, ReusedPagesAreReportedTogetherWithoutTheLock) {
  Use(1024);
  std::vector<void*> objects = Take(32 * 20);
  std::sort(objects.begin(), objects.end());
  std::vector<void*> dying;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 >= 28) dying.push_back(objects[i]);  // a native page of each span
  }
  for (void* p : dying) Give(p);
  ASSERT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 20 * kNativePageSize);
  source_.on_reused = [&] {
    const bool free = list_.lock().TryAcquire();
    if (free) list_.lock().Release();
    ASSERT_TRUE(free);
  };
  std::vector<void*> out(80);
  ASSERT_EQ(list_.Take(out.data(), 80), 80u);
  EXPECT_EQ(source_.ReleasedPages(), 0u);
  EXPECT_LE(source_.reused_calls, 10u);
}

// The source spares hugepages: what it leaves alone is not taken for given back, and goes when
// memory is short.
TEST_F(SpanReleaseTest, PagesThatAreLeftAloneGoWhenMemoryIsShort) {
  Use(1024);
  std::vector<void*> objects = Take(32);
  std::sort(objects.begin(), objects.end());
  Give({objects.begin() + 4, objects.end()});
  source_.spare_hugepages = true;
  EXPECT_TRUE(list_.SurveyIdle(UINT32_MAX));
  EXPECT_EQ(source_.surveyed, 7u);
  list_.SearchAnew();
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 0u);
  Give(Take(1));
  EXPECT_EQ(source_.reused_calls, 0u);
  list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests);
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kIsShort), 7 * kNativePageSize);
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kIsShort), 0u);
}

TEST_F(SpanReleaseTest, ASurveyCountsEachTimeAndChangesNothing) {
  Use(1024);
  std::vector<void*> objects = Take(32 * 100);
  std::sort(objects.begin(), objects.end());
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 >= 24) Give(objects[i]);  // two native pages of each span
  }
  for (size_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(list_.SurveyIdle(UINT32_MAX));
    EXPECT_EQ(source_.surveyed, i * 200);
  }
  EXPECT_EQ(source_.ReleasedPages(), 0u);
  list_.SearchAnew();
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 200 * kNativePageSize);
}

// The kernel may give the pages memory again by rebuilding their hugepage.
TEST_F(SpanReleaseTest, PagesWithMemoryAgainAreGivenBackAgain) {
  Use(1024);
  std::vector<void*> objects = Take(32);
  std::sort(objects.begin(), objects.end());
  Give({objects.begin() + 4, objects.end()});
  ASSERT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
  source_.Rebuild();
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 0u);  // nobody said so
  list_.SearchAnew();
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
  source_.Rebuild();
  Give(objects[3]);  // a change is reason enough to search the span
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
}

// Spans without an idle page fill no batch, and are no reason to hold the lock for all of them.
TEST_F(SpanReleaseTest, ASearchLooksAtABoundedNumberOfSpansAtATime) {
  Use(64);
  const size_t per_span = info().objects;
  std::vector<void*> objects = Take(per_span * 1500);
  std::vector<void*> dying;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 2 != 0) dying.push_back(objects[i]);
  }
  for (size_t i = 0; i < dying.size(); i += kMaxBatch)
    list_.Give(&dying[i], std::min(kMaxBatch, dying.size() - i));
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 0u);
  EXPECT_EQ(source_.release_calls, 0u);
  const size_t steps = 1500 * (per_span / 2 + kStepsOfASpan);
  EXPECT_GE(source_.isolation_calls, steps / kSearchSteps / 2);
  EXPECT_LE(source_.isolation_calls, steps / kSearchSteps * 2);
}

TEST_F(SpanReleaseTest, ReleaseIdleHonoursItsLimit) {
  Use(1024);
  std::vector<void*> objects = Take(32 * 200);
  std::vector<void*> dying;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 != 0) dying.push_back(objects[i]);
  }
  for (size_t i = 0; i < dying.size(); i += kMaxBatch)
    list_.Give(&dying[i], std::min(kMaxBatch, dying.size() - i));
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, 0, Program::kRests), 0u);
  const size_t first = list_.ReleaseIdle(UINT32_MAX, 100 << 10, Program::kRests);
  EXPECT_GE(first, 100u << 10);
  EXPECT_LE(first, (100u << 10) + 64 * 28 * 1024);  // it ends with the batch that reached it
  const size_t rest = list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests);
  EXPECT_EQ(first + rest, 200 * 7 * kNativePageSize);
}

TEST_F(SpanReleaseTest, NothingIsTakenFromASpanBeingReleased) {
  Use(1024);
  std::vector<void*> objects = Take(32);
  Span* isolated = SpanOf(objects[0]);
  Give({objects.begin() + 2, objects.end()});
  void* taken = nullptr;
  source_.on_release = [&] {
    if (taken != nullptr) return;
    EXPECT_EQ(isolated->state, SpanState::kIsolated);
    taken = Take(1)[0];
    EXPECT_NE(SpanOf(taken), isolated);
    Give(objects[0]);  // frees into it are welcome
    Give(objects[1]);
  };
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, 1, Program::kRests), 7 * kNativePageSize);
  EXPECT_EQ(isolated->state, SpanState::kSmall);
  EXPECT_EQ(isolated->allocated, 0u);
  EXPECT_EQ(list_.objects_out(), 1u);
  list_.ReleaseEmpty(UINT32_MAX);
  EXPECT_EQ(source_.live_spans.count(isolated), 0u);
  Give(taken);
}

// A span touched since it was searched comes before those that were not, or the search would end
// before it.
TEST_F(SpanReleaseTest, ATouchedSpanIsFoundAmongSearchedOnes) {
  Use(1024);
  std::vector<void*> objects = Take(32 * 20);
  std::sort(objects.begin(), objects.end());
  std::vector<void*> dying;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 >= 24) dying.push_back(objects[i]);
  }
  for (void* p : dying) Give(p);
  ASSERT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 40 * kNativePageSize);
  for (const size_t span : {0, 10, 19}) {  // a native page more, and as many live by bit width
    Give({objects.begin() + long(span * 32), objects.begin() + long(span * 32 + 4)});
    EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), kNativePageSize) << span;
  }
}

// A span that was too fresh is not hidden behind one that was searched meanwhile.
TEST_F(SpanReleaseTest, AFreshSpanIsComeBackTo) {
  Use(1024);
  for (const bool fresh_first : {false, true}) {
    std::vector<void*> all = Take(64);
    std::sort(all.begin(), all.end());
    const size_t fresh = fresh_first ? 0 : 32, old = 32 - fresh;
    std::vector<void*> of_old, of_fresh;
    for (size_t i = 0; i < 32; ++i) {
      if (i % 2 != 0) of_old.push_back(all[old + i]);   // no page without an object
      if (i >= 16) of_fresh.push_back(all[fresh + i]);  // four pages
    }
    list_.set_tick(10);
    if (!fresh_first) Give(of_old);
    list_.set_tick(20);
    Give(of_fresh);
    list_.set_tick(10);
    if (fresh_first) Give(of_old);
    list_.set_tick(20);
    EXPECT_EQ(list_.ReleaseIdle(15, SIZE_MAX, Program::kRests), 0u);
    EXPECT_EQ(list_.ReleaseIdle(21, SIZE_MAX, Program::kRests), 4 * kNativePageSize);
    for (size_t i = 0; i < 32; ++i) {
      if (i % 2 == 0) Give(all[old + i]);
      if (i < 16) Give(all[fresh + i]);
    }
    list_.ReleaseEmpty(UINT32_MAX);
  }
}

// Only what is given back and touched again is reported, and once.
TEST_F(SpanReleaseTest, OnlyPagesThatWereGoneAreReported) {
  Use(1024);
  std::vector<void*> objects = Take(32);
  std::sort(objects.begin(), objects.end());
  Give({objects.begin() + 4, objects.end()});
  ASSERT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
  Give(objects[3]);
  std::vector<void*> again = Take(5);  // one on the page that stayed, four on one that had gone
  EXPECT_EQ(source_.reused_pages, 1u);
  Give(again);
  Take(5);
  EXPECT_EQ(source_.reused_pages, 1u);
}

TEST_F(SpanReleaseTest, ARefusedReleaseIsTriedAgainNextTime) {
  Use(1024);
  std::vector<void*> objects = Take(32 * 100);
  std::sort(objects.begin(), objects.end());
  std::vector<void*> dying;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 >= 4) dying.push_back(objects[i]);
  }
  for (void* p : dying) Give(p);
  source_.refuse_release = true;
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 0u);
  EXPECT_EQ(source_.release_calls, 1u);  // the kernel said no: not a second time at once
  source_.refuse_release = false;
  list_.SearchAnew();
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), 700 * kNativePageSize);
}

// Spans with as many separate idle pages as there can be: more than one batch holds.
TEST_F(SpanReleaseTest, AllOfManyIdleRangesAreReleased) {
  size_t most = 0, size = 0;
  for (size_t c = 1; c < kNumClasses; ++c) {
    const ClassInfo& k = InfoOf(static_cast<SizeClass>(c));
    if (k.size % kNativePageSize == 0 && k.objects > most) most = k.objects, size = k.size;
  }
  Use(size);
  const size_t per_span = info().objects, spans = 1500 / info().pages;
  ASSERT_GT(spans * (per_span / 2), IsolatedSpans::kRanges * 2);
  std::vector<void*> objects = Take(per_span * spans);
  std::sort(objects.begin(), objects.end());
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % per_span % 2 == 0) Give(objects[i]);
  }
  const size_t idle = spans * ((per_span + 1) / 2) * size;
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), idle);
}

// Spans that empty while they are being released are kept, more of them than otherwise; one that
// empties in the next release is not on the list of empty ones either.
TEST_F(SpanReleaseTest, SpansThatEmptyWhileReleasedWaitForTheNextTick) {
  Use(1024);
  constexpr size_t kSpans = 7;
  std::vector<void*> objects = Take(32 * kSpans);
  std::sort(objects.begin(), objects.end());
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 >= 2) Give(objects[i]);
  }
  const auto empty = [&](size_t span) { Give({objects[span * 32], objects[span * 32 + 1]}); };
  source_.on_release = [&] {
    for (size_t span = 0; span + 1 < kSpans; ++span) empty(span);
  };
  EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), kSpans * 7 * kNativePageSize);
  EXPECT_EQ(source_.live_spans.size(), kSpans);
  source_.on_release = [&] { empty(kSpans - 1); };
  list_.SearchAnew();
  list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests);
  source_.on_release = nullptr;
  EXPECT_EQ(list_.objects_out(), 0u);
  EXPECT_EQ(source_.live_spans.size(), kSpans);
  EXPECT_EQ(list_.Stats().objects_free, kSpans * 32);
  list_.ReleaseEmpty(UINT32_MAX);
  EXPECT_TRUE(source_.live_spans.empty());
}

// Frees into a span while it is being released bring it to the front, before those that were
// searched: what has become idle is found.
TEST_F(SpanReleaseTest, ASpanTouchedWhileReleasedIsSearchedAgain) {
  Use(1024);
  std::vector<void*> objects = Take(32 * 5);
  std::sort(objects.begin(), objects.end());
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 >= 24) Give(objects[i]);
  }
  for (size_t touched = 0; touched < 5; ++touched) {
    source_.on_release = [&] {
      const auto first = objects.begin() + long(touched * 32);
      Give({first, first + 4});  // 20 are left, as many by bit width
      source_.on_release = nullptr;
    };
    source_.Rebuild();
    list_.SearchAnew();
    list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests);
    EXPECT_EQ(list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests), kNativePageSize) << touched;
  }
}

}  // namespace
}  // namespace strata::test
