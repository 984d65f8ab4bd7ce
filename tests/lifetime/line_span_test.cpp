// Spans of lines: objects laid into free lines, lines that come free again, and the count by which
// a span is given back once, by whoever drops it to zero.
#include "lifetime/line_span.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>
#include <vector>

#include "lifetime/local_spans.h"

namespace strata {
namespace {

using Freed = LineSpan::Freed;

class LineSpans : public testing::Test {
 protected:
  LineSpans() {
    // So that the first one's head begins it.
    raw_ = aligned_alloc(LineSpan::kColours * kSpanSize, LineSpan::kColours * kSpanSize);
    base_ = reinterpret_cast<uintptr_t>(raw_);
    memset(raw_, 0xab, LineSpan::kColours * kSpanSize);  // as what was there before leaves it
  }
  ~LineSpans() override { free(raw_); }
  uintptr_t Base(size_t i = 0) const { return base_ + i * kSpanSize; }
  static uintptr_t At(void* p) { return reinterpret_cast<uintptr_t>(p); }

  void* raw_;
  uintptr_t base_;
};

TEST_F(LineSpans, TheHeadsLinesAreNotFree) {
  for (size_t i = 0; i < LineSpan::kColours; ++i) {
    LineSpan* span = LineSpan::Begin(Base(i));
    EXPECT_EQ(span->base(), Base(i));
    const Lines free = span->FreeLines();
    EXPECT_EQ(free.Count(), kLinesPerSpan - LineSpan::kHeadLines);
    EXPECT_FALSE(free.AnyIn((At(span) - Base(i)) / kLineSize, LineSpan::kHeadLines));
  }
}

TEST_F(LineSpans, ObjectsFollowOneAnother) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  const uintptr_t first = At(cursor.Bump(48));
  EXPECT_EQ(At(cursor.Bump(16)), first + 48);
  EXPECT_EQ(At(cursor.Bump(160)), first + 64);
  EXPECT_EQ(span->SizeOf(first), 48u);
  EXPECT_EQ(span->SizeOf(first + 48), 16u);
  EXPECT_EQ(span->SizeOf(first + 64), 160u);
  EXPECT_EQ(span->SizeOf(first + 16), 0u);
  EXPECT_EQ(span->SizeOf(first + 8), 0u);
  EXPECT_EQ(cursor.Close(), 0u);
  EXPECT_EQ(span->live(), 3u);
}

TEST_F(LineSpans, TheLastFreeOfAClosedSpanSaysSo) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  const uintptr_t a = At(cursor.Bump(16)), b = At(cursor.Bump(16));
  EXPECT_EQ(span->Free(a), Freed::kFine);
  EXPECT_EQ(cursor.Close(), 0u);
  EXPECT_EQ(span->Free(b), Freed::kLast);
}

TEST_F(LineSpans, WhoClosesAnEmptySpanGivesItBack) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  EXPECT_EQ(span->Free(At(cursor.Bump(16))), Freed::kFine);
  EXPECT_EQ(cursor.Close(), Base());
}

TEST_F(LineSpans, FindsWhatIsNoLiveObject) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  const uintptr_t p = At(cursor.Bump(64));
  cursor.Bump(64);
  EXPECT_EQ(span->Free(p + 16), Freed::kNotAnObject);
  EXPECT_EQ(span->Free(p + 1), Freed::kNotAnObject);
  EXPECT_EQ(span->Free(p + 128), Freed::kNotAnObject);
  EXPECT_EQ(span->Free(p), Freed::kFine);
  EXPECT_EQ(span->Free(p), Freed::kTwice);
  EXPECT_EQ(span->SizeOf(p), 0u);
}

// A line is free only if nothing alive has a part in it.
TEST_F(LineSpans, OnlyWholeLinesComeFree) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  const size_t all = cursor.Open(span);
  std::vector<uintptr_t> objects;
  while (void* p = cursor.Bump(32)) objects.push_back(At(p));
  EXPECT_FALSE(cursor.HasRoom(32, 16));
  EXPECT_EQ(objects.size(), all * kLineSize / 32);
  EXPECT_EQ(cursor.Close(), 0u);
  EXPECT_FALSE(span->PartlyFree());
  span->Free(objects[1]);  // one of the four of its line
  for (size_t i = 4; i < 8; ++i) span->Free(objects[i]);
  EXPECT_TRUE(span->PartlyFree());
  ASSERT_TRUE(span->Claim());
  EXPECT_FALSE(span->PartlyFree()) << "it is open";
  span->ForgetFreed();
  EXPECT_EQ(cursor.Open(span), 1u);
  EXPECT_EQ(At(cursor.Bump(128)), objects[4]);
  EXPECT_EQ(span->SizeOf(objects[4]), 128u) << "old ends are forgotten";
  EXPECT_EQ(span->Free(objects[5]), Freed::kNotAnObject);
  EXPECT_EQ(span->SizeOf(objects[0]), 32u);
  cursor.Close();
}

TEST_F(LineSpans, AnObjectOverTwoLinesKeepsBoth) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  const size_t all = cursor.Open(span);
  const uintptr_t a = At(cursor.Bump(112));
  cursor.Bump(112);
  EXPECT_EQ(span->Free(a), Freed::kFine);
  cursor.Close();
  ASSERT_TRUE(span->Claim());
  span->ForgetFreed();
  EXPECT_EQ(cursor.Open(span), all - 2);
  cursor.Close();
}

TEST_F(LineSpans, WhatDiesWhileItIsOpenWaitsForTheNextTime) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  const uintptr_t a = At(cursor.Bump(128));
  EXPECT_EQ(span->Free(a), Freed::kFine);
  EXPECT_NE(At(cursor.Bump(128)), a);
  cursor.Close();
}

// More of it freed than lived in it when it was opened: it is open all the same.
TEST_F(LineSpans, IsOpenWhateverDiesInIt) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(span->Free(At(cursor.Bump(16))), Freed::kFine);
  const uintptr_t kept = At(cursor.Bump(16));
  EXPECT_FALSE(span->PartlyFree());
  EXPECT_EQ(cursor.Close(), 0u);
  EXPECT_TRUE(span->PartlyFree());
  EXPECT_EQ(span->Free(kept), Freed::kLast);
}

TEST_F(LineSpans, OneThatIsBeingGivenBackIsNotClaimed) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base());
  cursor.Open(span);
  const uintptr_t a = At(cursor.Bump(16));
  cursor.Close();
  EXPECT_EQ(span->Free(a), Freed::kLast);
  EXPECT_FALSE(span->Claim());
}

TEST_F(LineSpans, CursorsAlignAndPassBySmallRuns) {
  SpanCursor cursor;
  LineSpan* span = LineSpan::Begin(Base(1));  // its head lies between two runs
  cursor.Open(span);
  EXPECT_TRUE(cursor.HasRoom(LineSpan::kLargest, 16));
  EXPECT_EQ(cursor.BumpAligned(LineSpan::kLargest, 16), nullptr) << "not in the first";
  while (cursor.BumpAligned(256, 1024) == nullptr) ASSERT_TRUE(cursor.NextRun());
  cursor.Close();
  EXPECT_TRUE(span->PartlyFree());
}

// Every object is freed once, by one thread or the other, and one of them is told that it was the
// last.
TEST_F(LineSpans, ThreadsThatFreeAtOnceFindOneLast) {
  for (int round = 0; round < 200; ++round) {
    LineSpan* span = LineSpan::Begin(Base());
    SpanCursor cursor;
    cursor.Open(span);
    std::vector<uintptr_t> objects;
    while (void* p = cursor.Bump(16)) objects.push_back(At(p));
    std::atomic<int> last{0};
    std::thread other([&] {
      for (size_t i = 0; i < objects.size(); i += 2) last += span->Free(objects[i]) == Freed::kLast;
    });
    const bool empty = cursor.Close() != 0;
    for (size_t i = 1; i < objects.size(); i += 2) last += span->Free(objects[i]) == Freed::kLast;
    other.join();
    ASSERT_EQ(last + empty, 1);
  }
}

}  // namespace
}  // namespace strata
