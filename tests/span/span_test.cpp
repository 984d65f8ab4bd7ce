// Span records, their pool, and the page map.
#include "span/span.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "../hugepage/test_arena.h"
#include "span/page_map.h"

namespace strata {
namespace {

using test::TestArena;

size_t FreeBits(const Span& span) {
  size_t n = 0;
  for (size_t w = 0; w < span.bitmap_words; ++w)
    n += static_cast<size_t>(std::popcount(span.free_bits()[w]));
  return n;
}

TEST(Span, InitBitsMarksExactlyItsObjects) {
  TestArena memory;
  SpanPool pool(memory.arena());
  for (size_t objects = 1; objects <= 1024; ++objects) {
    Span* span = pool.New(objects);
    ASSERT_NE(span, nullptr);
    memset(span->free_bits(), 0xa5, span->bitmap_words * 8);
    span->InitBits();
    ASSERT_EQ(FreeBits(*span), objects);
    ASSERT_EQ(span->free_bits()[(objects - 1) / 64] >> (objects - 1) % 64, 1u);
    pool.Delete(span);
  }
}

TEST(Span, MarkFreeSetsABitEachOrNone) {
  TestArena memory;
  SpanPool pool(memory.arena());
  Span* span = pool.New(256);
  ASSERT_NE(span, nullptr);
  for (size_t first = 0; first < 256; first += 7) {
    for (size_t n = 1; first + n <= 256; n += 3) {
      memset(span->free_bits(), 0, span->bitmap_words * 8);
      ASSERT_TRUE(span->MarkFree(first, n));
      ASSERT_EQ(FreeBits(*span), n);
      for (const size_t end : {first, first + n - 1})
        ASSERT_EQ(span->free_bits()[end / 64] >> end % 64 & 1, 1u);
      // What is free already refuses all.
      for (const size_t taken : {first, first + n / 2, first + n - 1}) {
        memset(span->free_bits(), 0, span->bitmap_words * 8);
        ASSERT_TRUE(span->MarkFree(taken, 1));
        ASSERT_FALSE(span->MarkFree(first, n));
        ASSERT_EQ(FreeBits(*span), 1u);
      }
    }
  }
}

// Free objects in stretches of up to `longest`, with as many taken ones between them.
void FreeInStretches(Span& span, std::mt19937& random, size_t longest) {
  memset(span.free_bits(), 0, span.bitmap_words * 8);
  bool is_free = (random() & 1) != 0;
  for (size_t i = 0; i < span.objects; is_free = !is_free) {
    const size_t end = std::min<size_t>(i + 1 + random() % longest, span.objects);
    for (; i < end; ++i) {
      if (is_free) span.MarkFree(i);
    }
  }
}

TEST(Span, TakeFreeTakesTheLowestAndNoOthers) {
  TestArena memory;
  SpanPool pool(memory.arena());
  std::mt19937 random(1);
  for (const size_t objects : {1u, 63u, 64u, 65u, 200u, 1024u}) {
    Span* span = pool.New(objects);
    ASSERT_NE(span, nullptr);
    for (const size_t longest : {1u, 2u, 7u, 12u, 64u, 300u, 3000u}) {
      for (int round = 0; round < 20; ++round) {
        FreeInStretches(*span, random, longest);
        std::vector<size_t> expected, left, taken, still;
        const size_t n = random() % (objects + 2);
        for (size_t i = 0; i < objects; ++i) {
          if (span->IsFree(i)) (expected.size() < n ? expected : left).push_back(i);
        }
        const size_t got = span->TakeFree(n, [&taken](size_t first, size_t count) {
          for (size_t i = 0; i < count; ++i) taken.push_back(first + i);
        });
        for (size_t i = 0; i < objects; ++i) {
          if (span->IsFree(i)) still.push_back(i);
        }
        ASSERT_EQ(got, expected.size());
        ASSERT_EQ(taken, expected);
        ASSERT_EQ(still, left);
      }
    }
    pool.Delete(span);
  }
}

TEST(SpanPool, RecordsDoNotOverlapAndComeBackClean) {
  TestArena memory;
  SpanPool pool(memory.arena());
  std::mt19937 random(5);
  std::vector<Span*> held;
  for (int i = 0; i < 20'000; ++i) {
    if (held.size() < 100 && random() % 2 == 0) {
      const size_t objects = random() % 1025;
      Span* span = pool.New(objects);
      ASSERT_NE(span, nullptr);
      ASSERT_EQ(span->objects, objects);
      ASSERT_EQ(span->allocated, 0u);
      ASSERT_EQ(span->maybe_gone, 0u);
      ASSERT_EQ(span->list_next, nullptr);
      ASSERT_EQ(span->bitmap_words, (objects + 63) / 64);
      span->InitBits();
      span->first_page = static_cast<uint32_t>(i);
      held.push_back(span);
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      Span* span = held[at];
      // Nobody else's bits were written over this record's.
      ASSERT_EQ(FreeBits(*span), span->objects);
      span->maybe_gone = ~uint64_t{0};
      span->allocated = 7;
      pool.Delete(span);
      ASSERT_EQ(span->state, SpanState::kUnused);
      held[at] = held.back();
      held.pop_back();
    }
  }
  // Recycled: far less than 20,000 records' worth.
  EXPECT_LT(memory.arena().used_bytes(), 1000u * (sizeof(Span) + 128));
}

// Whatever sizes of records come after each other, as many fit as the largest ones would.
TEST(SpanPool, RecordsOfOneSizeServeAnother) {
  TestArena memory;
  SpanPool pool(memory.arena());
  std::mt19937 random(6);
  constexpr size_t kMost = 3000;
  std::vector<Span*> held;
  for (const size_t objects : {64, 1024, 100, 512, 256, 0, 1024, 3, 500}) {
    while (held.size() < kMost) held.push_back(pool.New(objects));
    for (Span* span : held) ASSERT_NE(span, nullptr);
    EXPECT_LE(memory.arena().used_bytes(), kMost * kSpanBlock);
    std::shuffle(held.begin(), held.end(), random);
    while (held.size() > kMost / 3) {  // what stays holds back as little as it can
      pool.Delete(held.back());
      held.pop_back();
    }
  }
}

TEST(SpanPool, NullWhenMetadataIsOut) {
  TestArena memory;
  SpanPool pool(memory.arena());
  memory.fail = true;
  EXPECT_EQ(pool.New(100), nullptr);
  memory.fail = false;
  EXPECT_NE(pool.New(100), nullptr);
}

TEST(PageMap, SpansEnterAllPagesLargeBlocksTheFirst) {
  std::vector<PageEntry> entries(64);
  std::vector<Span*> spans(64);
  PageMap map;
  map.Attach(uintptr_t{1} << 40, entries.data(), spans.data());
  Span small;
  Span large;
  map.Set({PageId(4), Pages(3)}, &small, static_cast<SizeClass>(9));
  map.Set({PageId(7), Pages(20)}, &large, SizeClass::kNone);
  for (size_t p = 0; p < 64; ++p) {
    const bool in_small = p >= 4 && p < 7;
    Span* expected = in_small ? &small : p == 7 ? &large : nullptr;
    EXPECT_EQ(map.SpanOf(PageId(p)), expected) << p;
    EXPECT_EQ(Raw(map.ClassOf(PageId(p))), in_small ? 9u : 0u) << p;
  }
  map.Clear({PageId(4), Pages(3)}, static_cast<SizeClass>(9));
  map.Clear({PageId(7), Pages(20)}, SizeClass::kNone);
  for (size_t p = 0; p < 64; ++p) {
    EXPECT_EQ(map.SpanOf(PageId(p)), nullptr);
    EXPECT_EQ(map.ClassOf(PageId(p)), SizeClass::kNone);
  }
}

// The fast path asks the entry where the object starts, the lists below ask the span's record.
TEST(PageMap, ASpansRecordAndItsEntriesAgreeWhereItsFirstObjectStarts) {
  constexpr uintptr_t kBase = uintptr_t{1} << 40;
  std::vector<PageEntry> entries(64);
  std::vector<Span*> spans(64);
  PageMap map;
  map.Attach(kBase, entries.data(), spans.data());
  for (const size_t size :
       {size_t{100}, size_t{9000}, size_t{18000}, size_t{40000}, size_t{70000}}) {
    for (uint32_t page = 3; page < 20; ++page) {
      Span span;
      span.first_page = page;
      span.size_class = ClassOfSize(size);
      span.num_pages = InfoOf(span.size_class).pages;
      map.Set(span.range(), &span, span.size_class);
      const uintptr_t start = kBase + span.start_offset();
      for (size_t offset = 0; offset < kPageSize; offset += 8) {
        const bool starts =
            offset >= span.first() && (offset - span.first()) % InfoOf(span.size_class).size == 0;
        ASSERT_EQ(IsObjectStart(map.entries()[page], span.size_class, start + offset), starts)
            << size << " on page " << page << " at " << offset;
      }
      map.Clear(span.range(), span.size_class);
    }
  }
}

// A record for many objects is kept for a span of many objects.
TEST(SpanPool, ASmallRecordTakesNoLargeOne) {
  TestArena memory;
  SpanPool pool(memory.arena());
  Span* large = pool.New(512);
  Span* beside = pool.New(128);  // the rest of the same block
  pool.Delete(large);
  Span* small = pool.New(64);
  EXPECT_NE(small, large);
  EXPECT_EQ(pool.New(512), large);
  pool.Delete(beside);
  EXPECT_EQ(pool.New(64)->bitmap_words, 1u);
}

TEST(SpanCache, RecordsComeBackAsNew) {
  TestArena memory;
  SpanPool pool(memory.arena());
  SpanCache cache(pool);
  Span* span = cache.New();
  span->lent_to = 3;
  cache.Delete(span);
  EXPECT_EQ(span->state, SpanState::kUnused);
  ASSERT_EQ(cache.New(), span);
  EXPECT_EQ(span->lent_to, 0u);
}

// What it does not keep others can have, and what they have it does not keep.
TEST(SpanCache, KeepsAFewRecordsAgainAndAgain) {
  TestArena memory;
  SpanPool pool(memory.arena());
  SpanCache cache(pool);
  constexpr size_t kKept = 32;
  for (int round = 0; round < 3; ++round) {
    std::vector<Span*> all;
    for (size_t i = 0; i < kKept + 8; ++i) all.push_back(cache.New());
    for (Span* span : all) cache.Delete(span);
    std::set<Span*> kept;
    for (size_t i = 0; i < kKept; ++i) kept.insert(cache.New());
    for (size_t i = 0; i < kKept; ++i) EXPECT_EQ(kept.count(all[i]), 1u) << round;
    std::set<Span*> of_pool;
    for (size_t i = 0; i < 10; ++i) of_pool.insert(pool.New(0));  // two of blocks begun earlier
    for (size_t i = kKept; i < all.size(); ++i) EXPECT_EQ(of_pool.count(all[i]), 1u) << round;
    for (Span* span : of_pool) pool.Delete(span);
    for (Span* span : kept) cache.Delete(span);
  }
}

TEST(PageMap, ASampledPageKeepsItsClass) {
  std::vector<PageEntry> entries(8);
  std::vector<Span*> spans(8);
  PageMap map;
  map.Attach(uintptr_t{1} << 40, entries.data(), spans.data());
  Span small;
  map.Set({PageId(2), Pages(2)}, &small, static_cast<SizeClass>(9));
  const PageEntry before = map.entries()[2];
  map.SetSampled(PageId(2));
  EXPECT_TRUE(IsSampledPage(map.EntryOf(PageId(2))));
  EXPECT_EQ(map.ClassOf(PageId(2)), static_cast<SizeClass>(9));
  EXPECT_FALSE(IsSampledPage(map.EntryOf(PageId(3))));
  map.ClearSampled(PageId(2));
  EXPECT_FALSE(IsSampledPage(map.EntryOf(PageId(2))));
  EXPECT_EQ(map.entries()[2].class_bits, before.class_bits);
  EXPECT_EQ(map.entries()[2].start_key, before.start_key);
}

// Of a block of several pages, whether the sampler has flagged one of them or not.
TEST(PageMap, ADivisionIsEnteredOnAllPagesAndTakenOffThem) {
  std::vector<PageEntry> entries(8);
  std::vector<Span*> spans(8);
  PageMap map;
  map.Attach(uintptr_t{1} << 40, entries.data(), spans.data());
  Span block;
  const PageRange range{PageId(1), Pages(3)};
  const SizeClass c = ClassOfSize(4 * kPageSize);
  map.Set(range, &block, c);
  map.SetSampled(PageId(2));
  const std::vector<PageEntry> before = entries;
  map.ToggleDivided(range, c);
  for (size_t p = 1; p < 4; ++p) {
    EXPECT_EQ(map.ClassOf(PageId(p)), kDividedPage) << p;
    // Without a class there is no factor.
    EXPECT_GE(uint32_t{entries[p].start_key} << 16, kStartBound) << p;
  }
  EXPECT_TRUE(IsSampledPage(map.EntryOf(PageId(2))));
  map.ToggleDivided(range, c);
  for (size_t p = 1; p < 4; ++p) {
    EXPECT_EQ(map.ClassOf(PageId(p)), c) << p;
    EXPECT_EQ(entries[p].start_key, before[p].start_key) << p;
  }
  EXPECT_TRUE(IsSampledPage(map.EntryOf(PageId(2))));
  EXPECT_EQ(map.ClassOf(PageId(4)), SizeClass::kNone);
  // Of a large block the first page alone, as it is entered.
  map.Set({PageId(5), Pages(3)}, &block, SizeClass::kNone);
  map.ToggleDivided({PageId(5), Pages(3)}, SizeClass::kNone);
  EXPECT_EQ(map.ClassOf(PageId(5)), kDividedPage);
  EXPECT_EQ(map.ClassOf(PageId(6)), SizeClass::kNone);
}

}  // namespace
}  // namespace strata
