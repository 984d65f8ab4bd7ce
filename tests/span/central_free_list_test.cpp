// CentralFreeList over a fake source: which span is taken from, when spans go, which frees are
// refused, and which native pages may be given back.
#include "span/central_free_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "fake_source.h"

namespace strata::test {
namespace {

class CentralFreeListTest : public testing::Test {
 protected:
  void Use(size_t size) {
    class_ = ClassOfSize(size);
    list_.Init(class_, &source_);
  }
  std::vector<void*> Take(size_t n) {
    std::vector<void*> out(n);
    size_t got = 0;
    while (got < n) {
      const size_t k = list_.Take(&out[got], std::min(n - got, kMaxBatch));
      if (k == 0) break;
      got += k;
    }
    out.resize(got);
    return out;
  }
  void Give(const std::vector<void*>& objects) { list_.Give(objects.data(), objects.size()); }
  void Give(void* object) { list_.Give(&object, 1); }
  Span* SpanOf(const void* p) {
    return source_.page_map().SpanOf(
        PageId((reinterpret_cast<uintptr_t>(p) - source_.base()) >> kPageShift));
  }
  const ClassInfo& info() const { return InfoOf(class_); }

  SizeClass class_ = SizeClass::kNone;
  FakeSource source_;
  TestCentral list_;
};

TEST_F(CentralFreeListTest, WithoutPriorityTheSpanFreedIntoLastComesFirst) {
  class_ = ClassOfSize(1024);
  list_.Init(class_, &source_, SpanOrder::kLastIn);
  std::vector<void*> all = Take(96);
  // 30 and then 1 left: the fuller span got room first, so the emptier one is in front.
  Give({all.begin(), all.begin() + 2});
  Give({all.begin() + 32, all.begin() + 63});
  for (void* p : Take(31)) EXPECT_EQ(SpanOf(p), SpanOf(all[63]));
  for (void* p : Take(2)) EXPECT_EQ(SpanOf(p), SpanOf(all[2]));
}

TEST_F(CentralFreeListTest, CountsSpansByOccupancyAndThoseThatWentBack) {
  Use(8192);  // 8 objects a span; one empty span is kept
  ASSERT_EQ(info().objects, 8u);
  list_.set_tick(2);
  std::vector<void*> all = Take(40);
  Give({all.begin() + 1, all.begin() + 8});    // leaves 1
  Give({all.begin() + 10, all.begin() + 16});  // leaves 2; the others hold 8
  list_.set_tick(3);
  CentralStats s = list_.Stats();
  EXPECT_EQ(s.spans_taken, 5u);
  EXPECT_EQ(s.spans_returned, 0u);
  const uint64_t seen[kOccupancyBuckets] = {0, 0, 0, 0, 3, 0, 1, 1};
  for (size_t b = 0; b < kOccupancyBuckets; ++b) EXPECT_EQ(s.observed[b], seen[b]) << b;
  Give(all[0]);                                // empty, and kept
  Give({all.begin() + 8, all.begin() + 10});   // the next goes back at once
  Give({all.begin() + 16, all.begin() + 24});  // and a full one
  s = list_.Stats();
  EXPECT_EQ(s.spans_returned, 2u);
  EXPECT_EQ(s.returned[6], 1u);
  EXPECT_EQ(s.returned[4], 1u);
  EXPECT_EQ(s.returned[7], 0u);
  list_.set_tick(4);
  list_.ReleaseEmpty(UINT32_MAX);  // the kept one counts as it was when last seen with objects
  s = list_.Stats();
  EXPECT_EQ(s.returned[7], 1u);
  EXPECT_EQ(s.observed[4], 5u);
  // What comes and goes between two looks was not observed.
  std::vector<void*> more = Take(24);
  Give(more);
  list_.ReleaseEmpty(UINT32_MAX);
  s = list_.Stats();
  EXPECT_EQ(s.returned[4] + s.returned[6] + s.returned[7], 3u);
  EXPECT_EQ(s.spans_taken - s.spans_returned, s.spans);
}

TEST_F(CentralFreeListTest, TakesFromTheFullestSpan) {
  Use(1024);  // 32 objects a span
  ASSERT_EQ(info().objects, 32u);
  std::vector<void*> all = Take(96);
  ASSERT_EQ(source_.live_spans.size(), 3u);
  // Leave 2, 20 and 9 in the three spans.
  const size_t keep[] = {2, 20, 9};
  for (size_t s = 0; s < 3; ++s)
    Give({all.begin() + long(s * 32 + keep[s]), all.begin() + long(s * 32 + 32)});
  ASSERT_EQ(list_.objects_out(), 31u);
  Span* fullest = SpanOf(all[32]);
  Span* second = SpanOf(all[64]);
  Span* emptiest = SpanOf(all[0]);
  for (void* p : Take(12)) EXPECT_EQ(SpanOf(p), fullest);
  for (void* p : Take(23)) EXPECT_EQ(SpanOf(p), second);
  for (void* p : Take(30)) EXPECT_EQ(SpanOf(p), emptiest);
  EXPECT_EQ(source_.take_calls, 3u);
}

TEST_F(CentralFreeListTest, OneTakeMaySpanSpansAndIsShortOnlyWithoutMemory) {
  Use(1024);
  std::vector<void*> out(kMaxBatch);
  EXPECT_EQ(list_.Take(out.data(), 100), 100u);
  EXPECT_EQ(source_.live_spans.size(), 4u);
  std::sort(out.begin(), out.begin() + 100);
  EXPECT_EQ(std::adjacent_find(out.begin(), out.begin() + 100), out.begin() + 100);
  source_.fail_take_in = 1;
  EXPECT_EQ(list_.Take(out.data(), 128), 28u + 32u);
  source_.fail_take_in = 0;
  EXPECT_EQ(list_.Take(out.data(), 8), 0u);
  EXPECT_EQ(list_.Take(out.data(), 8), 8u);  // and it recovers
}

TEST_F(CentralFreeListTest, KeepsAFewEmptySpansAndRetiresTheRest) {
  Use(8);
  const auto give_all = [&](const std::vector<void*>& all) {
    for (size_t i = 0; i < all.size(); i += kMaxBatch)
      list_.Give(&all[i], std::min(kMaxBatch, all.size() - i));
  };
  give_all(Take(size_t{info().objects} * 20));
  EXPECT_EQ(list_.objects_out(), 0u);
  const size_t kept = source_.live_spans.size();
  EXPECT_GE(kept, 1u);
  EXPECT_LE(kept * info().pages * kPageSize, 64u << 10);
  // Those are taken from before the source is asked again.
  const size_t calls = source_.take_calls;
  give_all(Take(size_t{info().objects} * kept));
  EXPECT_EQ(source_.take_calls, calls);
  list_.ReleaseEmpty(UINT32_MAX);
  EXPECT_TRUE(source_.live_spans.empty());
}

TEST_F(CentralFreeListTest, LargeEmptySpansGoAtOnce) {
  Use(128 << 10);
  std::vector<void*> all = Take(3);
  Give(all);
  EXPECT_TRUE(source_.live_spans.empty());
  EXPECT_EQ(source_.give_calls, 3u);
}

TEST_F(CentralFreeListTest, ReleaseEmptySparesTheFresh) {
  Use(4096);
  list_.set_tick(5);
  Give(Take(1));
  ASSERT_EQ(source_.live_spans.size(), 1u);
  list_.ReleaseEmpty(5);
  EXPECT_EQ(source_.live_spans.size(), 1u);
  list_.ReleaseEmpty(6);
  EXPECT_TRUE(source_.live_spans.empty());
}

TEST_F(CentralFreeListTest, ADoubleFreeIsReportedAndChangesNothing) {
  Use(64);
  std::vector<void*> objects = Take(3);
  Give(objects[1]);
  Give({objects[0], objects[1], objects[2]});
  EXPECT_EQ(source_.bad_frees, std::vector<void*>{objects[1]});
  EXPECT_EQ(list_.objects_out(), 0u);
  Give(objects[0]);  // into a span that is empty
  EXPECT_EQ(source_.bad_frees.size(), 2u);
  EXPECT_EQ(list_.objects_out(), 0u);
  EXPECT_EQ(list_.Stats().objects_free, list_.Stats().spans * info().objects);
}

TEST_F(CentralFreeListTest, AMisalignedFreeIsReported) {
  Use(48);
  std::vector<void*> objects = Take(info().objects);
  for (const size_t off : {1, 8, 16, 47}) {
    Give(static_cast<char*>(objects[5]) + off);
    EXPECT_EQ(source_.bad_frees.back(), static_cast<char*>(objects[5]) + off);
  }
  // The tail of the span, past the last object.
  const size_t tail = info().pages * kPageSize - size_t{info().objects} * info().size;
  ASSERT_GT(tail, 0u);
  char* end = reinterpret_cast<char*>(source_.base()) + SpanOf(objects[0])->start_offset() +
              size_t{info().objects} * info().size;
  Give(end);
  EXPECT_EQ(source_.bad_frees.back(), end);
  EXPECT_EQ(source_.bad_frees.size(), 5u);
  EXPECT_EQ(list_.objects_out(), objects.size());
}

TEST_F(CentralFreeListTest, AFreeIntoAnotherClassOrNoSpanIsReported) {
  Use(64);
  TestCentral other;
  other.Init(ClassOfSize(1024), &source_);
  void* foreign = nullptr;
  ASSERT_EQ(other.Take(&foreign, 1), 1u);
  void* mine = Take(1)[0];
  char* nowhere = reinterpret_cast<char*>(source_.base()) + 1000 * kPageSize;
  Give({foreign, mine});
  Give(std::vector<void*>{nowhere});
  EXPECT_EQ(source_.bad_frees, (std::vector<void*>{foreign, nowhere}));
  EXPECT_EQ(list_.objects_out(), 0u);
  EXPECT_EQ(other.objects_out(), 1u);
}

TEST(CentralFreeList, ReleasesExactlyTheNativePagesWithoutLiveObjects) {
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

TEST_F(CentralFreeListTest, ReleaseIdleSparesSpansTouchedSince) {
  Use(1024);
  list_.set_tick(10);
  std::vector<void*> objects = Take(32);
  Give({objects.begin() + 1, objects.end()});
  EXPECT_EQ(list_.ReleaseIdle(10, SIZE_MAX, Program::kRests), 0u);
  EXPECT_EQ(source_.release_calls, 0u);
  // It was too fresh, not scanned: a later call finds it.
  EXPECT_EQ(list_.ReleaseIdle(11, SIZE_MAX, Program::kRests), 7 * kNativePageSize);
}

TEST_F(CentralFreeListTest, AReusedPageIsNotedOnce) {
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

// What a refill takes from many spans is told in a few calls, and never under the list's lock: the
// page heap may read files and release memory then.
TEST_F(CentralFreeListTest, ReusedPagesAreReportedTogetherWithoutTheLock) {
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
  EXPECT_LE(source_.reused_calls, 5u);
}

// The source spares hugepages: what it leaves alone is not taken for given back, and goes when
// memory is short.
TEST_F(CentralFreeListTest, PagesThatAreLeftAloneGoWhenMemoryIsShort) {
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

TEST_F(CentralFreeListTest, ASurveyCountsEachTimeAndChangesNothing) {
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
TEST_F(CentralFreeListTest, PagesWithMemoryAgainAreGivenBackAgain) {
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
TEST_F(CentralFreeListTest, ASearchLooksAtABoundedNumberOfSpansAtATime) {
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

TEST_F(CentralFreeListTest, ReleaseIdleHonoursItsLimit) {
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

TEST_F(CentralFreeListTest, NothingIsTakenFromASpanBeingReleased) {
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

TEST_F(CentralFreeListTest, MovesCountTakesAndGives) {
  Use(64);
  EXPECT_EQ(list_.moves(), 0u);
  const std::vector<void*> objects = Take(10);
  Give(objects);
  EXPECT_EQ(list_.moves(), 2u);
  list_.ReleaseEmpty(UINT32_MAX);
  EXPECT_EQ(list_.moves(), 2u);  // the background's own work is not counted
}

}  // namespace
}  // namespace strata::test
