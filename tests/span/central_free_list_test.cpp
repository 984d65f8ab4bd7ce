// CentralFreeList over a fake source: which span is taken from, when spans go, and which frees are
// refused. Which native pages may be given back: span_release_test.cpp.
#include "span/central_free_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "central_free_list_fixture.h"

namespace strata::test {
namespace {

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
  UseOften(8192);  // 8 objects a span; one empty span is kept
  ASSERT_EQ(info().objects, 8u);
  list_.set_tick(2);
  std::vector<void*> all = Take(40);
  Give({all.begin() + 1, all.begin() + 8});    // leaves 1
  Give({all.begin() + 10, all.begin() + 16});  // leaves 2; the others hold 8
  list_.set_tick(3);
  CentralStats s = list_.Stats();
  EXPECT_EQ(s.spans_taken, 8u + 5u);
  EXPECT_EQ(s.spans_returned, 8u);
  const uint64_t seen[kOccupancyBuckets] = {0, 0, 0, 0, 3, 0, 1, 1};
  for (size_t b = 0; b < kOccupancyBuckets; ++b) EXPECT_EQ(s.observed[b], seen[b]) << b;
  Give(all[0]);                                // empty, and kept
  Give({all.begin() + 8, all.begin() + 10});   // the next goes back at once
  Give({all.begin() + 16, all.begin() + 24});  // and a full one
  s = list_.Stats();
  EXPECT_EQ(s.spans_returned, 8u + 2u);
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

TEST_F(CentralFreeListTest, SpansAreShortUntilTheyAddUpToAFullOne) {
  source_.short_spans = true;
  Use(1024);
  ASSERT_EQ(info().pages, 4u);
  ASSERT_EQ(info().short_pages, 1u);
  std::vector<void*> all = Take(1);
  EXPECT_EQ(source_.live_spans.size(), 1u);
  EXPECT_EQ(list_.Stats().pages, 1u);
  EXPECT_EQ(list_.Stats().objects_free, 7u);
  for (void* p : Take(31)) all.push_back(p);
  EXPECT_EQ(source_.live_spans.size(), 4u);
  EXPECT_EQ(list_.Stats().pages, 4u);
  EXPECT_EQ(list_.Stats().objects_free, 0u);
  for (void* p : Take(33)) all.push_back(p);  // two full ones
  EXPECT_EQ(SpanOf(all[32])->num_pages, 4u);
  EXPECT_EQ(SpanOf(all[64])->num_pages, 4u);
  EXPECT_EQ(list_.Stats().spans, 6u);
  EXPECT_EQ(list_.Stats().pages, 12u);
  EXPECT_EQ(list_.Stats().objects_free, 31u);
  // Once they are gone, the class begins anew.
  Give(all);
  list_.ReleaseEmpty(UINT32_MAX);
  EXPECT_TRUE(source_.live_spans.empty());
  EXPECT_EQ(list_.Stats().pages, 0u);
  EXPECT_EQ(list_.Stats().objects_free, 0u);
  EXPECT_EQ(SpanOf(Take(1)[0])->num_pages, 1u);
}

TEST_F(CentralFreeListTest, AShortSpanRefusesWhatLiesBehindItsObjects) {
  source_.short_spans = true;
  Use(5120);  // three objects and a tail of 1 KiB
  std::vector<void*> objects = Take(3);
  ASSERT_EQ(source_.live_spans.size(), 1u);
  void* const behind = static_cast<char*>(objects[2]) + info().size;
  ASSERT_EQ(SpanOf(behind), SpanOf(objects[2]));
  Give(behind);
  EXPECT_EQ(source_.bad_frees, std::vector<void*>{behind});
  Give(objects);
  EXPECT_EQ(list_.objects_out(), 0u);
}

TEST_F(CentralFreeListTest, WhatIsKeptEmptyIsCountedInPages) {
  source_.short_spans = true;
  UseOften(1024);
  std::vector<void*> all = Take(32 + 64);  // four short spans and two full ones
  ASSERT_EQ(source_.live_spans.size(), 6u);
  Give(all);  // twelve pages, of which eight may stay
  EXPECT_EQ(list_.Stats().pages, 8u);
  EXPECT_EQ(list_.Stats().spans, 5u);
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
  UseOften(4096);
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

// So many that a free moves the span to no other list.
TEST_F(CentralFreeListTest, ADoubleFreeIntoASpanThatStaysOnItsListIsReported) {
  Use(64);
  std::vector<void*> objects = Take(7);
  Give(objects[3]);
  Give(objects[3]);
  EXPECT_EQ(source_.bad_frees, std::vector<void*>{objects[3]});
  EXPECT_EQ(list_.objects_out(), 6u);
}

// Neighbours are freed at once, whichever way they come, over the ends of words and of spans.
TEST_F(CentralFreeListTest, NeighboursComeBackInEitherOrder) {
  for (const size_t size : {8, 16, 64, 400, 4096}) {
    Use(size);
    for (const size_t n : {size_t{2}, size_t{63}, size_t{64}, size_t{65}, kMaxBatch}) {
      for (const bool descend : {false, true}) {
        std::vector<void*> objects = Take(size_t{info().objects} * 2 + n);
        std::sort(objects.begin(), objects.end());
        if (descend) std::reverse(objects.begin(), objects.end());
        while (!objects.empty()) {
          const size_t some = std::min(n, objects.size());
          Give(std::vector<void*>(objects.end() - static_cast<ptrdiff_t>(some), objects.end()));
          objects.resize(objects.size() - some);
          ASSERT_EQ(list_.objects_out(), objects.size());
          for (void* p : objects) ASSERT_EQ(FreeBitOf(p), 0u);
        }
        ASSERT_TRUE(source_.bad_frees.empty());
      }
    }
    list_.ReleaseEmpty(UINT32_MAX);
    ASSERT_TRUE(source_.live_spans.empty());
  }
}

// Neighbours are compared four at a time.
TEST_F(CentralFreeListTest, ARowOfNeighboursMayEndAnywhere) {
  Use(1024);
  for (size_t at = 0; at < 16; ++at) {
    std::vector<void*> some = Take(16);
    std::vector<void*> mixed = some;
    std::swap(mixed[at], mixed[15 - at % 3]);
    mixed.pop_back();
    Give(mixed);
    ASSERT_EQ(list_.objects_out(), 1u) << at;
    std::vector<void*> again = Take(15);
    std::sort(again.begin(), again.end());
    std::sort(mixed.begin(), mixed.end());
    ASSERT_EQ(again, mixed) << at;
    Give(some);
  }
  EXPECT_EQ(list_.objects_out(), 0u);
}

TEST_F(CentralFreeListTest, ADoubleFreeAmongNeighboursIsReportedAndTheOthersAreFreed) {
  Use(16);
  std::vector<void*> objects = Take(100);
  std::sort(objects.begin(), objects.end());
  Give({objects[50], objects[70]});
  Give(objects);
  EXPECT_EQ(list_.objects_out(), 0u);
  // The last of the batch is the one that is told.
  EXPECT_EQ(source_.bad_frees, std::vector<void*>{objects[70]});
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

// No object begins where the span does: a free of what is there must neither end in another object
// nor go on for ever.
TEST_F(CentralFreeListTest, AFreeBeforeTheFirstObjectIsReported) {
  for (const size_t size : {size_t{18000}, size_t{40000}}) {
    TestCentral list;
    list.Init(ClassOfSize(size), &source_);
    void* object = nullptr;
    ASSERT_EQ(list.Take(&object, 1), 1u);
    const size_t first = SpanOf(object)->first();
    ASSERT_GT(first, 0u);
    char* start = static_cast<char*>(object) - first;
    ASSERT_EQ(reinterpret_cast<uintptr_t>(start) % kPageSize, 0u);
    for (const size_t off : {size_t{0}, size_t{8}, size_t{16}, first - 16, first - 1}) {
      void* bad = start + off;
      list.Give(&bad, 1);
      EXPECT_EQ(source_.bad_frees.back(), bad);
    }
    EXPECT_EQ(list.objects_out(), 1u);
    list.Give(&object, 1);
    EXPECT_EQ(list.objects_out(), 0u);
  }
  EXPECT_EQ(source_.bad_frees.size(), 10u);
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

TEST_F(CentralFreeListTest, MovesCountTakesAndGives) {
  Use(64);
  EXPECT_EQ(list_.moves(), 0u);
  const std::vector<void*> objects = Take(10);
  Give(objects);
  EXPECT_EQ(list_.moves(), 2u);
  list_.ReleaseEmpty(UINT32_MAX);
  EXPECT_EQ(list_.moves(), 2u);  // the background's own work is not counted
}

// A span that was kept empty is not counted as seen with objects, whatever it held before.
TEST_F(CentralFreeListTest, ASpanThatWasEmptyAtTheLastLookWasNotSeen) {
  UseOften(8192);
  list_.set_tick(2);
  std::vector<void*> one = Take(1);
  list_.set_tick(3);  // sees it with one object
  Give(one);
  list_.set_tick(4);  // and empty
  Give(Take(1));
  list_.ReleaseEmpty(UINT32_MAX);
  for (const uint64_t n : list_.Stats().returned) EXPECT_EQ(n, 0u);
}

TEST_F(CentralFreeListTest, AReleasedEmptySpanMakesRoomForAnother) {
  UseOften(1024);
  for (int i = 0; i < 5; ++i) {
    Give(Take(1));
    EXPECT_EQ(source_.live_spans.size(), 1u) << i;  // kept
    list_.ReleaseEmpty(UINT32_MAX);
  }
}

}  // namespace
}  // namespace strata::test
