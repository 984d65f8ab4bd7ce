// SpanLists: which span comes first, which empty ones are kept, and a search that goes on after the
// lists have changed under it.
#include "span/span_lists.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "class_spans.h"

namespace strata::test {
namespace {

using Searched = SpanLists::Searched;

class SpanListsTest : public testing::Test {
 protected:
  Span* Fullest() {
    LockHolder hold(lists_.lock);
    return lists_.Fullest();
  }
  void Set(Span* span, size_t allocated) {
    LockHolder hold(lists_.lock);
    ClassSpans::Set(lists_, span, allocated);
  }
  void Tick(uint32_t tick) {
    LockHolder hold(lists_.lock);
    lists_.SetTick(tick);
  }
  void Begin() {
    LockHolder hold(lists_.lock);
    lists_.BeginSearch();
  }
  // Looks at `most` spans.
  SpanLists::Walked Walk(uint32_t before, size_t most, std::vector<Span*>& seen) {
    LockHolder hold(lists_.lock);
    return lists_.Walk(before, [&](Span* s) {
      seen.push_back(s);
      return --most != 0;
    });
  }

  ClassSpans spans_;
  SpanLists lists_;
};

TEST_F(SpanListsTest, TheFullestWithRoomComesFirst) {
  Span* empty = spans_.Add(lists_, 0);
  EXPECT_EQ(Fullest(), empty);
  Span* few = spans_.Add(lists_, 2);
  EXPECT_EQ(Fullest(), few);
  Span* many = spans_.Add(lists_, 20);
  spans_.Add(lists_, 9);
  spans_.Add(lists_, ClassSpans::kObjects);
  EXPECT_EQ(Fullest(), many);
  Set(many, 1);
  Set(few, 31);
  EXPECT_EQ(Fullest(), few);
}

TEST_F(SpanListsTest, LastInIsOneListInTheOrderOfRoom) {
  lists_.Init(SpanOrder::kLastIn);
  Span* a = spans_.Add(lists_, 32);
  Span* b = spans_.Add(lists_, 32);
  Set(a, 31);
  Set(b, 1);
  EXPECT_EQ(Fullest(), b);
  Set(a, 30);  // it had room already
  EXPECT_EQ(Fullest(), b);
}

// What the lists know of one span that had so many, then one less.
struct Lowered {
  bool in_place;
  size_t allocated, list, bucket_seen_next;
  friend bool operator==(const Lowered&, const Lowered&) = default;
};
Lowered Lower(ClassSpans& spans, size_t objects, size_t allocated, bool in_place) {
  SpanLists lists;
  Span* span = spans.Add(lists, 1);
  span->objects = static_cast<uint16_t>(objects);
  LockHolder hold(lists.lock);
  ClassSpans::Set(lists, span, allocated);
  Lowered out{in_place && lists.CountOneLess(span), 0, 0, 0};
  if (!out.in_place) lists.Recount(span, allocated - 1);
  lists.SetTick(2);
  while (out.bucket_seen_next < kOccupancyBuckets && lists.observed(out.bucket_seen_next) == 0)
    ++out.bucket_seen_next;
  out.allocated = span->allocated;
  out.list = span->occupancy_list;
  return out;
}

TEST_F(SpanListsTest, OneLessIsCountedInPlaceWhereARecountMovesNothing) {
  for (size_t objects : {ClassSpans::kObjects, ClassSpans::kObjects - 3}) {
    for (size_t allocated = 1; allocated <= objects; ++allocated) {
      const bool moves = allocated == objects || std::has_single_bit(allocated);
      Lowered recounted = Lower(spans_, objects, allocated, false);
      recounted.in_place = !moves;
      EXPECT_EQ(Lower(spans_, objects, allocated, true), recounted) << allocated;
    }
  }
  Span* none = spans_.Add(lists_, 0);
  LockHolder hold(lists_.lock);
  EXPECT_FALSE(lists_.CountOneLess(none));
}

TEST_F(SpanListsTest, TheFirstUseAfterATickIsNoMereCount) {
  Span* span = spans_.Add(lists_, 20);
  Tick(2);
  {
    LockHolder hold(lists_.lock);
    EXPECT_FALSE(lists_.CountOneLess(span));
  }
  Set(span, 19);
  LockHolder hold(lists_.lock);
  EXPECT_TRUE(lists_.CountOneLess(span));
  EXPECT_EQ(span->allocated, 18);
}

TEST_F(SpanListsTest, KeepsTwoEmptySpansOf32KiB) {
  Span* spans[8];
  for (Span*& s : spans) s = spans_.Add(lists_, 1);
  LockHolder hold(lists_.lock);
  size_t kept = 0;
  for (Span* s : spans) {
    ClassSpans::Set(lists_, s, 0);
    kept += !lists_.TryRetire(s);
  }
  EXPECT_EQ(kept, 2u);
  EXPECT_EQ(lists_.spans(), 2u);
  EXPECT_EQ(lists_.spans_taken(), 8u);
}

TEST_F(SpanListsTest, AClassThatTookFewSpansKeepsNone) {
  for (int i = 0; i < 7; ++i) {
    Span* span = spans_.Add(lists_, 1);
    LockHolder hold(lists_.lock);
    ClassSpans::Set(lists_, span, 0);
    EXPECT_TRUE(lists_.TryRetire(span)) << i;
  }
  Span* eighth = spans_.Add(lists_, 1);
  LockHolder hold(lists_.lock);
  ClassSpans::Set(lists_, eighth, 0);
  EXPECT_FALSE(lists_.TryRetire(eighth));
}

TEST_F(SpanListsTest, TakesOutWhatLayEmptySince) {
  Span* old = spans_.Add(lists_, 0);
  Tick(5);
  Span* fresh = spans_.Add(lists_, 0);
  LockHolder hold(lists_.lock);
  EXPECT_EQ(lists_.TakeUnused(5), old);
  EXPECT_EQ(lists_.TakeUnused(5), nullptr);
  EXPECT_EQ(lists_.TakeUnused(6), fresh);
  EXPECT_EQ(lists_.spans(), 0u);
}

TEST_F(SpanListsTest, ASearchBeginsWithTheEmptiestAndSeesEachOnce) {
  Span* half = spans_.Add(lists_, 16);
  Span* one = spans_.Add(lists_, 1);
  Span* three = spans_.Add(lists_, 3);
  spans_.Add(lists_, ClassSpans::kObjects);
  spans_.Add(lists_, 0);
  std::vector<Span*> seen;
  Begin();
  EXPECT_EQ(Walk(UINT32_MAX, 100, seen).searched, Searched::kAll);
  EXPECT_EQ(seen, (std::vector{one, three, half}));
  Begin();
  EXPECT_EQ(Walk(UINT32_MAX, 100, seen).searched, Searched::kAll);
  EXPECT_EQ(seen.size(), 3u) << "not touched since";
  Set(three, 2);
  Begin();
  Walk(UINT32_MAX, 100, seen);
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen.back(), three);
  {
    LockHolder hold(lists_.lock);
    lists_.SearchAnew();
  }
  Begin();
  Walk(UINT32_MAX, 100, seen);
  EXPECT_EQ(seen.size(), 7u);
}

TEST_F(SpanListsTest, ASearchGoesOnThoughItsNextSpanMoved) {
  Span* spans[4];
  for (Span*& s : spans) s = spans_.Add(lists_, 1);  // on one list, the last in front
  std::vector<Span*> seen;
  Begin();
  EXPECT_EQ(Walk(UINT32_MAX, 1, seen).searched, Searched::kSome);
  Set(spans[2], 20);  // it was next
  EXPECT_EQ(Walk(UINT32_MAX, 100, seen).searched, Searched::kAll);
  EXPECT_EQ(seen, (std::vector{spans[3], spans[1], spans[0], spans[2]}));
}

TEST_F(SpanListsTest, ASearchPassesWhatWasUsedLately) {
  Span* old = spans_.Add(lists_, 1);
  Tick(7);
  spans_.Add(lists_, 1);
  std::vector<Span*> seen;
  Begin();
  const SpanLists::Walked walked = Walk(7, 100, seen);
  EXPECT_TRUE(walked.passed_fresh);
  EXPECT_EQ(seen, std::vector{old});
  Begin();
  EXPECT_FALSE(Walk(8, 100, seen).passed_fresh);
}

TEST_F(SpanListsTest, AnIsolatedSpanIsNobodysUntilItRejoins) {
  Span* span = spans_.Add(lists_, 4);
  Begin();
  LockHolder hold(lists_.lock);
  lists_.Walk(UINT32_MAX, [](Span* s) {
    s->state = SpanState::kIsolated;
    return true;
  });
  EXPECT_EQ(lists_.Fullest(), nullptr);
  ClassSpans::Set(lists_, span, 0);  // frees into it only count
  EXPECT_EQ(lists_.Fullest(), nullptr);
  lists_.Rejoin(span);
  EXPECT_EQ(lists_.TakeUnused(UINT32_MAX), span);
}

}  // namespace
}  // namespace strata::test
