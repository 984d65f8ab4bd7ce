// IdleSearch: what a search tells the source and when it looks at all, with a source that takes,
// spares or refuses.
#include "span/idle_search.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "class_spans.h"
#include "hugepage/page_heap_stats.h"

namespace strata::test {
namespace {

constexpr size_t kIdleBytes = ClassSpans::kIdle * kNativePageSize;

struct FakePages {
  struct Done {
    size_t bytes;
    bool refused;
  };
  Done ReleaseInUse(NativeRange* ranges, size_t n, Program) {
    ++calls;
    if (on_release) on_release();
    size_t bytes = 0;
    for (size_t i = 0; i < n; ++i) {
      if (spares) ranges[i].bytes = 0;
      bytes += ranges[i].bytes;
    }
    return refuses ? Done{0, true} : Done{bytes, false};
  }
  void NoteIdle(const NativePages* spans, size_t n) {
    for (size_t i = 0; i < n; ++i) counted += static_cast<size_t>(std::popcount(spans[i].pages));
  }
  Lock& isolation_lock() { return lock; }

  Lock lock{LockRank::kControl};
  std::function<void()> on_release;
  bool spares = false, refuses = false;
  size_t calls = 0, counted = 0;
};

class IdleSearchTest : public testing::Test {
 protected:
  void Add(size_t n) {
    for (; n != 0; --n) spans_.Add(lists_, 1);
    search_.NoteGiven();
  }
  size_t Release(size_t limit = SIZE_MAX, Program program = Program::kRests) {
    return search_.Release(lists_, pages_, UINT32_MAX, limit, program);
  }
  size_t Survey() {
    const size_t before = pages_.counted;
    const bool any = search_.Survey(lists_, pages_, UINT32_MAX);
    EXPECT_EQ(any, pages_.counted != before);
    return pages_.counted - before;
  }

  ClassSpans spans_;
  SpanLists lists_;
  IdleSearch search_;
  FakePages pages_;
};

TEST_F(IdleSearchTest, LooksOnlyWhenSomethingCameBack) {
  Add(3);
  EXPECT_EQ(Release(), 3 * kIdleBytes);
  EXPECT_FALSE(search_.may_find());
  Add(1);
  EXPECT_TRUE(search_.may_find());
  EXPECT_EQ(Release(), kIdleBytes);
  search_.NoteGiven();
  EXPECT_EQ(Release(), 0u) << "nothing was touched";
  search_.Anew(lists_);
  EXPECT_EQ(Release(), 4 * kIdleBytes);
}

TEST_F(IdleSearchTest, ASurveyTellsAllEachTime) {
  EXPECT_EQ(Survey(), 0u);
  Add(100);
  EXPECT_EQ(Survey(), 100 * ClassSpans::kIdle);
  EXPECT_FALSE(search_.may_find()) << "it has found all";
  EXPECT_EQ(Survey(), 100 * ClassSpans::kIdle);
  EXPECT_EQ(pages_.calls, 0u);
}

TEST_F(IdleSearchTest, NothingCanBeTakenFromWhatIsBeingGivenBack) {
  Add(10);
  pages_.on_release = [&] {
    LockHolder hold(lists_.lock);
    EXPECT_EQ(lists_.Fullest(), nullptr);
    EXPECT_FALSE(pages_.lock.TryAcquire());
  };
  Release();
  EXPECT_EQ(pages_.calls, 1u);
  LockHolder hold(lists_.lock);
  ASSERT_NE(lists_.Fullest(), nullptr);
  EXPECT_EQ(lists_.Fullest()->maybe_gone, 0xfeu) << "all but the first native page";
}

TEST_F(IdleSearchTest, EndsWithTheBatchThatReachesTheLimitAndGoesOnFromThere) {
  Add(200);
  const size_t first = Release(1);
  EXPECT_EQ(first, 64 * kIdleBytes);
  EXPECT_EQ(pages_.calls, 1u);
  EXPECT_EQ(first + Release(), 200 * kIdleBytes);
}

TEST_F(IdleSearchTest, ARefusalEndsTheSearchUntilTheNext) {
  Add(200);
  pages_.refuses = true;
  EXPECT_EQ(Release(), 0u);
  EXPECT_EQ(pages_.calls, 1u);
  EXPECT_TRUE(search_.may_find());
  pages_.refuses = false;
  EXPECT_EQ(Release(), (200 - 64) * kIdleBytes);
}

TEST_F(IdleSearchTest, WhatTheSourceSparesGoesWhenMemoryIsShort) {
  Add(5);
  pages_.spares = true;
  EXPECT_EQ(Release(), 0u);
  {
    LockHolder hold(lists_.lock);
    EXPECT_EQ(lists_.Fullest()->maybe_gone, 0u);
  }
  pages_.spares = false;
  EXPECT_EQ(Release(), 0u) << "at rest it is not asked again";
  EXPECT_EQ(Release(SIZE_MAX, Program::kIsShort), 5 * kIdleBytes);
  EXPECT_EQ(Release(SIZE_MAX, Program::kIsShort), 0u);
}

TEST_F(IdleSearchTest, ComesAgainForWhatWasUsedLately) {
  Add(1);
  EXPECT_EQ(search_.Release(lists_, pages_, 1, SIZE_MAX, Program::kRests), 0u);
  EXPECT_TRUE(search_.may_find());
  EXPECT_EQ(search_.Release(lists_, pages_, 2, SIZE_MAX, Program::kRests), kIdleBytes);
}

TEST(IdlePages, AnObjectTouchesAllNativePagesThatItLiesOn) {
  const auto pages = [](size_t size, size_t index) {
    const ClassInfo& info = InfoOf(ClassOfSize(size));
    return NativePagesOfObject(info, info.starts == 0 ? 0 : kShift, index);
  };
  EXPECT_EQ(pages(1024, 3), 0b1u);
  EXPECT_EQ(pages(1024, 4), 0b10u);
  EXPECT_EQ(pages(3072, 1), 0b11u);
  EXPECT_EQ(pages(256 << 10, 0), ~uint64_t{0});
  // 64 bytes before they would, but for the first: 20352 bytes from 64 and from 20416 on.
  EXPECT_EQ(pages(20000, 0), 0b11111u);
  EXPECT_EQ(pages(20000, 1), 0b1111110000u);
  EXPECT_EQ(pages(20000, 2), 0b111111000000000u);
}

}  // namespace
}  // namespace strata::test
