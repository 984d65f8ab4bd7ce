// Domains and their collector on a fake memory: who owns what, what moves where and when, what
// fails and loses nothing.
#include "hotness/hot_domain.h"

#include <gtest/gtest.h>

#include <random>

#include "fake_hot_memory.h"
#include "hotness/address_bits.h"

namespace strata {
namespace {

TEST(HotDomain, WhatIsUsedBecomesHotAndTheRestCold) {
  HotScene s;
  std::vector<strata_hot_guide> guides(1000);
  for (size_t i = 0; i < guides.size(); ++i)
    ASSERT_TRUE(s.Make(&guides[i], 1024, static_cast<unsigned char>(i)));
  for (uint32_t round = 0; round < kWindowsToCold; ++round) {
    for (size_t i = 0; i < guides.size(); i += 10) s.Use(&guides[i]);
    s.Round();
  }
  for (size_t i = 0; i < guides.size(); ++i) {
    EXPECT_EQ(s.HeapOf(guides[i]), i % 10 == 0 ? HotHeap::kHot : HotHeap::kCold) << i;
    EXPECT_TRUE(AllBytesAre(guides[i], 1024, static_cast<unsigned char>(i)));
  }
  EXPECT_EQ(s.collector.counts().moves.load(), 1000u);
  EXPECT_GT(s.memory.advice[static_cast<int>(PageAdvice::kPageOut)].load(), 0u);
  for (strata_hot_guide& g : guides) s.Drop(&g);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.taken.load(), s.memory.given.load());
}

TEST(HotDomain, WhatIsMadeAndNeverUsedIsNotHot) {
  HotScene s;
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 100, 1));
  s.Round();
  s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kNew);
  for (int i = 0; i < 4; ++i) s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kCold);
  s.Use(&g);
  s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kHot);
  EXPECT_GT(s.collector.counts().rate.load(), 0.9);
  s.Drop(&g);
}

TEST(HotDomain, WhatAnOperationUsesDoesNotMove) {
  HotScene s;
  strata_hot_guide held{}, other{};
  ASSERT_TRUE(s.Make(&held, 64, 7));
  ASSERT_TRUE(s.Make(&other, 64, 8));
  s.Round();
  // One that began before the epoch and does not end: nothing moves at all.
  strata_hot_scope old;
  s.domain.Enter(&old);
  HotDomain::GetSlow(&old, &held);
  s.Round();
  EXPECT_EQ(s.collector.counts().moves.load(), 0u);
  EXPECT_EQ(s.collector.counts().epochs_given_up.load(), 1u);
  HotDomain::Leave(&old);
  s.Drop(&held);
  s.Drop(&other);
}

// One that begins in an epoch lists what it uses; the rest moves.
TEST(HotDomain, OnlyWhatIsListedStays) {
  HotScene s;
  std::vector<strata_hot_guide> guides(10);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 64, 1));
  s.domain.scopes().SetListing(Listing::kOn);
  strata_hot_scope op;
  s.domain.Enter(&op);
  EXPECT_EQ(HotDomain::GetSlow(&op, &guides[3]), strata_hot_peek(&guides[3]));
  EXPECT_EQ(HotDomain::GetSlow(&op, &guides[3]), strata_hot_peek(&guides[3]));
  const void* before = strata_hot_peek(&guides[3]);
  Mover mover(s.memory.pool, s.domain.scopes());
  HotShelf* target = s.domain.ShelfFor(HotHeap::kCold, 64, nullptr);
  for (size_t i = 0; i < guides.size(); ++i) {
    const ObjectPlace at = s.domain.owners().Find(strata_hot_peek(&guides[i]));
    EXPECT_EQ(mover.Move(at.block, at.index, *target, MayGrow::kYes),
              i == 3 ? MoveResult::kInUse : MoveResult::kMoved);
  }
  EXPECT_EQ(strata_hot_peek(&guides[3]), before);
  EXPECT_FALSE(GuideWord(guides[3].word).locked());
  HotDomain::Leave(&op);
  for (strata_hot_guide& g : guides) s.Drop(&g);
}

// More than a slot has room for, and more operations than there are slots: then nothing moves.
TEST(HotDomain, TooManyToListHoldsEverything) {
  HotScene s;
  std::vector<strata_hot_guide> guides(ScopeSlot::kObjects + 2);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 32, 1));
  s.domain.scopes().SetListing(Listing::kOn);
  strata_hot_scope op;
  s.domain.Enter(&op);
  for (size_t i = 0; i + 1 < guides.size(); ++i) HotDomain::GetSlow(&op, &guides[i]);
  EXPECT_TRUE(
      s.domain.scopes().InUse(reinterpret_cast<uintptr_t>(strata_hot_peek(&guides.back()))));
  HotDomain::Leave(&op);
  EXPECT_FALSE(
      s.domain.scopes().InUse(reinterpret_cast<uintptr_t>(strata_hot_peek(&guides.back()))));
  std::vector<strata_hot_scope> many(ScopeTable::kSlots + 1);
  for (strata_hot_scope& m : many) s.domain.Enter(&m);
  EXPECT_EQ(many.back().slot, nullptr);
  EXPECT_TRUE(s.domain.scopes().InUse(1));
  HotDomain::Leave(&many.back());
  EXPECT_FALSE(s.domain.scopes().InUse(1));
  many.pop_back();
  for (strata_hot_scope& m : many) HotDomain::Leave(&m);
  for (strata_hot_guide& g : guides) s.Drop(&g);
}

// What once was hot leaves holes behind, which may all lie in one block.
TEST(HotDomain, TheHotHeapStaysDense) {
  HotScene s;
  std::vector<strata_hot_guide> guides(4000);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 128, 1));
  for (uint32_t round = 0; round < 2; ++round) {
    for (strata_hot_guide& g : guides) s.Use(&g);
    s.Round();
  }
  EXPECT_EQ(s.domain.HeldIn(HotHeap::kHot).objects, guides.size());
  for (uint32_t round = 0; round < 2 * kWindowsToCold; ++round) {
    for (size_t i = 0; i < guides.size(); i += 16) s.Use(&guides[i]);
    s.Round();
  }
  EXPECT_EQ(s.domain.HeldIn(HotHeap::kHot).objects, guides.size() / 16);
  EXPECT_GT(s.collector.counts().utilization.load(), 0.9);
  for (strata_hot_guide& g : guides) s.Drop(&g);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.taken.load(), s.memory.given.load());
}

// As compiled code does with a node that it takes out of a list and puts in front again.
TEST(HotDomain, WhatGoesFromGuideToGuideIsUsed) {
  HotScene s;
  strata_hot_guide a{}, b{}, made{}, taken{};
  ASSERT_TRUE(s.Make(&a, 64, 1));
  for (int round = 0; round < 3; ++round) {
    void* const object = strata_hot_peek(&a);
    s.domain.owners().Own(&b, object);
    s.domain.owners().Own(&a, nullptr);  // has lost it
    s.domain.owners().Own(&a, object);
    s.domain.owners().Own(&b, nullptr);
    if (round == 1) {  // and as it does when it empties the old place first
      s.domain.owners().Own(&a, nullptr);
      s.domain.owners().Own(&a, object);
    }
    s.Round();
  }
  EXPECT_EQ(s.HeapOf(a), HotHeap::kHot);
  // One that was only just made is not.
  ASSERT_TRUE(s.Make(&made, 64, 1));
  s.domain.owners().Own(&taken, strata_hot_peek(&made));
  s.Round();
  s.Round();
  EXPECT_EQ(s.HeapOf(taken), HotHeap::kNew);
  s.Drop(&a);
  s.Drop(&taken);
}

TEST(HotDomain, ColdBytesAreReclaimedFromTheCgroupOnce) {
  CollectorOptions options;
  options.reclaim = STRATA_HOT_RECLAIM_CGROUP;
  HotScene s(options);
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 3000, 5));
  for (int i = 0; i < 8; ++i) s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kCold);
  EXPECT_EQ(s.memory.reclaimed.load(), HotBlock::kBytes);
  EXPECT_EQ(s.collector.counts().paged_out_bytes.load(), HotBlock::kBytes);
  EXPECT_EQ(s.memory.advice[static_cast<int>(PageAdvice::kPageOut)].load(), 0u);
  s.Drop(&g);
}

TEST(HotDomain, DamonIsAskedOnceAndLeftAtTheEnd) {
  CollectorOptions options;
  options.reclaim = STRATA_HOT_RECLAIM_DAMON;
  HotScene s(options);
  strata_hot_guide g{};
  s.Round();
  EXPECT_EQ(s.memory.watching.load(), 0);  // nothing is cold
  ASSERT_TRUE(s.Make(&g, 3000, 5));
  for (int i = 0; i < 8; ++i) s.Round();
  EXPECT_EQ(s.memory.watching.load(), 1);
  EXPECT_EQ(s.memory.advice[static_cast<int>(PageAdvice::kPageOut)].load(), 0u);
  s.Drop(&g);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.watching.load(), 0);
}

TEST(HotDomain, DamonIsToldWhereColdObjectsLie) {
  CollectorOptions options;
  options.reclaim = STRATA_HOT_RECLAIM_DAMON;
  HotScene s(options);
  const auto watched = [&s](const strata_hot_guide& g) {
    const uintptr_t at = GuideWord(g.word).address();
    return s.memory.watched.holds({at, at + 1});
  };
  strata_hot_guide small{}, large{};
  ASSERT_TRUE(s.Make(&small, 3000, 5));
  for (int i = 0; i < 8; ++i) s.Round();
  EXPECT_TRUE(watched(small));
  ASSERT_TRUE(s.Make(&large, 600'000, 5));  // in a block of its own
  for (int i = 0; i < 8; ++i) s.Round();
  EXPECT_FALSE(watched(large));  // so soon after
  s.memory.now += 3'000'000'000;
  for (int i = 0; i < 2; ++i) s.Round();
  EXPECT_TRUE(watched(small) && watched(large));
  EXPECT_EQ(s.memory.watching.load(), 1);
  s.Drop(&small);
  s.Drop(&large);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.watching.load(), 0);
}

TEST(HotDomain, WhereDamonRefusesMoreColdPagesAreMarked) {
  CollectorOptions options;
  options.reclaim = STRATA_HOT_RECLAIM_DAMON;
  HotScene s(options);
  strata_hot_guide small{}, large{};
  ASSERT_TRUE(s.Make(&small, 3000, 5));
  for (int i = 0; i < 8; ++i) s.Round();
  ASSERT_EQ(s.memory.watching.load(), 1);
  s.memory.no_damon = "gone";
  s.memory.now += 3'000'000'000;
  ASSERT_TRUE(s.Make(&large, 600'000, 5));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 8; ++i) s.Round();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("DAMON cannot be used (gone)"),
            std::string::npos);
  EXPECT_EQ(s.memory.watching.load(), 0);
  EXPECT_GT(s.memory.advice[static_cast<int>(PageAdvice::kCold)].load(), 0u);
  s.Drop(&small);
  s.Drop(&large);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.watching.load(), 0);
}

TEST(HotDomain, WithoutDamonColdPagesAreMarked) {
  CollectorOptions options;
  options.reclaim = STRATA_HOT_RECLAIM_DAMON;
  HotScene s(options);
  s.memory.no_damon = "none";
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 3000, 5));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 8; ++i) s.Round();
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "strata: DAMON cannot be used (none): cold pages of hot_ptr objects stay until memory is "
      "short\n");
  EXPECT_GT(s.memory.advice[static_cast<int>(PageAdvice::kCold)].load(), 0u);
  s.Drop(&g);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.watching.load(), 0);
}

TEST(HotDomain, AddressesThatGuidesCannotHoldAreRefused) {
  constexpr uint64_t kAll = ~uint64_t{0};
  const int here = 0;
  EXPECT_EQ(WhyGuidesCannotHold(kAll, reinterpret_cast<uintptr_t>(&here)), nullptr);
  constexpr uint64_t kTagged = ~(uint64_t{0x3f} << 57);
  EXPECT_STREQ(WhyGuidesCannotHold(kTagged, 0), "the upper bits of addresses are in use (LAM)");
  EXPECT_STREQ(WhyGuidesCannotHold(kAll, uintptr_t{1} << arch::kAddressBits),
               "addresses have more bits than usual (LA57 of x86-64, LVA of Arm)");
}

TEST(HotDomain, LargeObjectsChangeTheirHeapAndStay) {
  HotScene s;
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 3 << 20, 5));
  const void* before = strata_hot_peek(&g);
  for (int i = 0; i < 6; ++i) s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kCold);
  EXPECT_EQ(strata_hot_peek(&g), before);
  EXPECT_EQ(s.domain.HeapStats(HotHeap::kCold).objects, 1u);
  EXPECT_GE(s.domain.HeapStats(HotHeap::kCold).bytes, size_t{3} << 20);
  s.Use(&g);
  s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kHot);
  s.Drop(&g);
  s.collector.GiveBackAll();
  EXPECT_EQ(s.memory.taken.load(), s.memory.given.load());
}

int g_moves = 0, g_ends = 0;
struct SelfMoving {
  SelfMoving* self;
};
const strata_hot_type kSelfMoving = {"SelfMoving",
                                     [](void* to, void* from, size_t) {
                                       ++g_moves;
                                       EXPECT_EQ(static_cast<SelfMoving*>(from)->self, from);
                                       static_cast<SelfMoving*>(to)->self =
                                           static_cast<SelfMoving*>(to);
                                     },
                                     [](void*, size_t) { ++g_ends; }};

TEST(HotDomain, TypesMoveThemselvesAndEnd) {
  HotScene s;
  strata_hot_guide g{};
  auto* p = static_cast<SelfMoving*>(s.domain.Allocate(sizeof(SelfMoving), 8, &kSelfMoving));
  p->self = p;
  s.domain.owners().Own(&g, p);
  for (int i = 0; i < 6; ++i) s.Round();
  EXPECT_EQ(g_moves, 1);
  auto* now = static_cast<SelfMoving*>(strata_hot_peek(&g));
  EXPECT_NE(now, p);
  EXPECT_EQ(now->self, now);
  s.domain.Retire(s.domain.owners().Disown(&g));
  for (int i = 0; i < 4; ++i) s.domain.FreeRetired();
  EXPECT_EQ(g_ends, 1);
}

TEST(HotDomain, LargeAlignedObjectsShareBlocks) {
  HotScene s;
  for (int i = 0; i < 50; ++i) ASSERT_NE(s.domain.Allocate(20'000, 128, nullptr), nullptr);
  const std::lock_guard hold(s.memory.lock);
  EXPECT_LE(s.memory.blocks.size(), 1u);
}

TEST(HotDomain, RetiredObjectsOutliveTheOperationsThatRun) {
  HotScene s;
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 3));
  strata_hot_scope reader, writer;
  s.domain.Enter(&reader);
  auto* seen = static_cast<unsigned char*>(HotDomain::GetSlow(&reader, &g));
  s.domain.Enter(&writer);
  void* next = s.domain.Allocate(64, 16, nullptr);
  memset(next, 4, 64);
  EXPECT_FALSE(s.domain.Exchange(&g, nullptr, next));
  EXPECT_TRUE(s.domain.Exchange(&g, seen, next));
  HotDomain::Leave(&writer);
  for (int i = 0; i < 6; ++i) s.domain.FreeRetired();
  EXPECT_EQ(s.domain.retired_waiting(), 1u);
  EXPECT_EQ(seen[0], 3);
  HotDomain::Leave(&reader);
  for (int i = 0; i < 6; ++i) s.domain.FreeRetired();
  EXPECT_EQ(s.domain.retired_waiting(), 0u);
  EXPECT_EQ(s.Use(&g), 4);
  s.Drop(&g);
  EXPECT_EQ(s.domain.HeapStats(HotHeap::kNew).objects, 0u);
}

TEST(HotDomain, GuidesChangeHandsAndForeignMemoryStays) {
  HotScene s;
  strata_hot_guide a{}, b{}, foreign{};
  ASSERT_TRUE(s.Make(&a, 64, 3));
  s.domain.owners().Move(&b, &a);
  EXPECT_EQ(strata_hot_peek(&a), nullptr);
  for (int i = 0; i < 6; ++i) s.Round();
  EXPECT_EQ(s.HeapOf(b), HotHeap::kCold);
  // What b owned is a's; b is given another and must leave the first alone.
  s.domain.owners().Own(&a, strata_hot_peek(&b));
  ASSERT_TRUE(s.Make(&b, 64, 4));
  EXPECT_EQ(s.Use(&a), 3);
  EXPECT_EQ(s.Use(&b), 4);
  char own[64] = {5};
  s.domain.owners().Own(&foreign, own);
  s.Round();
  EXPECT_EQ(s.Use(&foreign), 5);
  EXPECT_EQ(strata_hot_peek(&foreign), own);
  EXPECT_EQ(s.domain.owners().Disown(&foreign), own);
  s.Drop(&a);
  s.Drop(&b);
}

// Rounds are as far apart as a share of a CPU asks for, and further while nothing is to gain.
TEST(HotDomain, RoundsComeLessOftenWhenNothingIsToGain) {
  CollectorOptions o;
  o.period_ns = 1'000'000'000;
  HotScene s(o);
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 3));
  uint64_t last = 0;
  for (int i = 0; i < 12; ++i) {
    s.memory.now = std::max<uint64_t>(s.memory.now, s.collector.due_ns());
    const uint64_t began = s.memory.now;
    s.collector.Round(RoundBounds::kBounded);
    last = s.collector.due_ns() - began;
  }
  EXPECT_GE(last, 15 * o.period_ns);
  s.Drop(&g);
}

TEST(HotDomain, ABoundedRoundMovesSoManyBytesASecond) {
  CollectorOptions o;
  o.bytes_per_second = 1 << 20;
  HotScene s(o);
  std::vector<strata_hot_guide> guides(10'000);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 1024, 1));
  for (int i = 0; i < 4; ++i) {
    s.memory.now += 1'000'000'000;
    s.collector.Round(RoundBounds::kBounded);
  }
  EXPECT_LE(s.collector.counts().moved_bytes.load(), uint64_t{5} << 20);
  EXPECT_GT(s.collector.counts().moves.load(), 500u);
  for (strata_hot_guide& g : guides) s.Drop(&g);
}

// A hot heap with holes is made dense: its blocks become fewer.
TEST(HotDomain, SparseBlocksAreEmptied) {
  HotScene s;
  std::vector<strata_hot_guide> guides(20'000);
  for (size_t i = 0; i < guides.size(); ++i)
    ASSERT_TRUE(s.Make(&guides[i], 1024, static_cast<unsigned char>(i)));
  s.Round();
  for (strata_hot_guide& g : guides) s.Use(&g);
  s.Round();
  const size_t before = s.domain.HeapStats(HotHeap::kHot).resident_bytes;
  for (size_t i = 0; i < guides.size(); ++i) {
    if (i % 5 != 0) s.Drop(&guides[i]);
  }
  for (int i = 0; i < 6; ++i) {
    for (size_t j = 0; j < guides.size(); j += 5) s.Use(&guides[j]);
    s.Round();
  }
  EXPECT_LT(s.domain.HeapStats(HotHeap::kHot).resident_bytes, before * 2 / 5);
  for (size_t i = 0; i < guides.size(); i += 5) {
    EXPECT_TRUE(AllBytesAre(guides[i], 1024, static_cast<unsigned char>(i)));
    s.Drop(&guides[i]);
  }
}

// Random programs against a map of what each guide should hold.
TEST(HotDomain, RandomProgramsKeepEveryByte) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    HotScene s;
    std::mt19937 random(seed);
    std::vector<strata_hot_guide> guides(400);
    std::vector<std::pair<size_t, unsigned char>> holds(guides.size());
    for (int step = 0; step < 20'000; ++step) {
      const size_t i = random() % guides.size();
      switch (random() % 8) {
        case 0:
        case 1:
          if (holds[i].first == 0) {
            const size_t size = random() % 50 == 0 ? 300'000 : 1 + random() % 5000;
            const auto fill = static_cast<unsigned char>(1 + random() % 250);
            ASSERT_TRUE(s.Make(&guides[i], size, fill));
            holds[i] = {size, fill};
          }
          break;
        case 2:
          s.Drop(&guides[i]);
          holds[i] = {};
          break;
        case 3: {
          const size_t j = random() % guides.size();
          if (j == i || holds[j].first != 0 || holds[i].first == 0) break;
          s.domain.owners().Move(&guides[j], &guides[i]);
          holds[j] = std::exchange(holds[i], {});
          break;
        }
        case 4:
          if (random() % 40 == 0) s.Round();
          break;
        default:
          EXPECT_EQ(s.Use(&guides[i]), holds[i].second);
      }
    }
    for (size_t i = 0; i < guides.size(); ++i) {
      if (holds[i].first != 0) {
        EXPECT_TRUE(AllBytesAre(guides[i], holds[i].first, holds[i].second));
      }
      s.Drop(&guides[i]);
    }
    s.collector.GiveBackAll();
    EXPECT_EQ(s.memory.taken.load(), s.memory.given.load());
    EXPECT_GT(s.collector.counts().moves.load(), 100u);
  }
}

}  // namespace
}  // namespace strata
