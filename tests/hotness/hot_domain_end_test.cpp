// The end of a domain, what serves the next one in its place, and what its objects do as they end.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_hot_memory.h"
#include "hotness/hot_domain.h"
#include "regions/domain_record.h"

namespace strata {
namespace {

TEST(DomainRecord, TheHandleOfADomainThatEndedIsKnown) {
  DomainRecord record;
  SpareRecords spares;
  strata_hot_domain* const first = record.Handle();
  EXPECT_TRUE(record.Serves(first));
  spares.Put(&record);
  EXPECT_TRUE(record.HasEnded());
  EXPECT_FALSE(record.Serves(record.Handle()));
  for (uintptr_t after = 1; after < DomainRecord::kGenerations; ++after) {
    ASSERT_EQ(spares.Take(), &record);
    strata_hot_domain* const now = record.Handle();
    EXPECT_EQ(&DomainRecord::Of(now), &record);
    EXPECT_TRUE(record.Serves(now) && !record.HasEnded());
    EXPECT_FALSE(record.Serves(first)) << after;
    spares.Put(&record);
  }
  ASSERT_EQ(spares.Take(), &record);
  record.state = DomainRecord::State::kEnds;
  EXPECT_FALSE(record.Serves(record.Handle()) || record.HasEnded());
}

TEST(SpareRecords, TheOldestServesNext) {
  DomainRecord records[3];
  SpareRecords spares;
  EXPECT_EQ(spares.Take(), nullptr);
  for (DomainRecord& r : records) spares.Put(&r);
  EXPECT_EQ(spares.Take(), &records[0]);
  spares.Put(&records[0]);
  for (const int i : {1, 2, 0}) EXPECT_EQ(spares.Take(), &records[i]);
  EXPECT_EQ(spares.Take(), nullptr);
  spares.Put(&records[1]);
  EXPECT_EQ(spares.Take(), &records[1]);
}

// Rounds are counted anew: what had no room in the first one of the domain before has some now.
TEST(HotDomain, TheNextInItsPlaceHasBeenRefusedNothing) {
  HotScene s;
  HotShelf* shelf = s.domain.ShelfFor(HotHeap::kCold, 64, nullptr);
  shelf->refused_in = 1;
  s.domain.Renew(std::nullopt);
  EXPECT_EQ(shelf->refused_in, 0u);
  EXPECT_FALSE(s.domain.scopes().phase().lists());
}

TEST(HotDomain, TheNextInItsPlaceIsCheckedAnew) {
  HotScene s;
  s.domain.CheckUses(CheckBounds::kTheFirst);
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 3));
  for (uint32_t i = 0; i < UseChecks::kBoundedOperations + 2; ++i) s.Use(&g);
  s.Round();
  EXPECT_FALSE(s.domain.always_lists() || s.domain.scopes().phase().lists());
  s.Drop(&g);
  s.domain.EndQuarantine();
  s.domain.Renew(CheckBounds::kTheFirst);
  EXPECT_TRUE(s.domain.always_lists() && s.domain.scopes().phase().lists());
}

TEST(HotDomain, ChecksThatHadNoMemoryBeginWithTheNextInItsPlace) {
  HotScene s;
  FakeHotMemory::no_metadata = true;
  while (s.memory.arena.Allocate(1024) != nullptr) {
  }
  s.domain.CheckUses(CheckBounds::kEverything);
  FakeHotMemory::no_metadata = false;
  EXPECT_FALSE(s.domain.always_lists());
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, kNativePageSize, 3));  // whose shelf stays
  s.Drop(&g);
  s.domain.Renew(CheckBounds::kEverything);
  EXPECT_TRUE(s.domain.always_lists());
  ASSERT_TRUE(s.Make(&g, 64, 3));
  const void* before = strata_hot_peek(&g);
  EXPECT_EQ(s.Use(&g), 3);
  EXPECT_NE(strata_hot_peek(&g), before);
  EXPECT_GT(s.memory.advice[static_cast<int>(PageAdvice::kShut)].load(), 0u);
  s.Drop(&g);
  s.domain.EndQuarantine();
}

// Once the last object has left, the domain's memory may be another's: nothing is counted then.
TEST(HotDomain, WhatWaitedIsCountedBeforeItLeaves) {
  struct Last final : Quarantine {
    explicit Last(HotDomain& d) : domain(d) {}
    void Put(HotShelf& shelf, HotBlock* b, uint32_t i) override {
      waiting = domain.retired_waiting();
      shelf.FreeNow(b, i);
    }
    HotDomain& domain;
    size_t waiting = 1;
  };
  HotScene s;
  Last last(s.domain);
  void* p = s.domain.Allocate(64, 16, nullptr);
  s.domain.ShelfFor(HotHeap::kNew, 64, nullptr)->quarantine = &last;
  s.domain.Retire(p);
  EXPECT_EQ(s.domain.retired_waiting(), 1u);
  for (int i = 0; i < 4; ++i) s.domain.FreeRetired();
  EXPECT_EQ(last.waiting, 0u);
}

ObjectCollector* g_collector = nullptr;
int g_ended = 0;

// Nothing it does may begin a second round within the first, which has but one list.
bool OwnRoundGoesOn() {
  return g_collector->RoundIsMine() && !g_collector->Round(RoundBounds::kAtOnce);
}

void RetireAndRound(HotScene& s, const strata_hot_type* type) {
  g_collector = &s.collector;
  g_ended = 0;
  s.domain.Retire(s.domain.Allocate(64, 16, type));
  for (int i = 0; i < 4; ++i) s.Round();
  EXPECT_EQ(g_ended, 1);
  EXPECT_EQ(s.collector.counts().rounds.load(), 4u);
  EXPECT_FALSE(s.collector.RoundIsMine());
}

TEST(ObjectCollector, ARoundKnowsItsThread) {
  HotScene s;
  const strata_hot_type type = {"Asks", nullptr, [](void*, size_t) {
                                  ++g_ended;
                                  EXPECT_TRUE(OwnRoundGoesOn());
                                  std::thread([] {
                                    EXPECT_FALSE(g_collector->RoundIsMine());
                                    EXPECT_FALSE(g_collector->Round(RoundBounds::kAtOnce));
                                  }).join();
                                }};
  RetireAndRound(s, &type);
}

TEST(ObjectCollector, ARoundGoesOnInTheChildOfWhatForksInIt) {
  HotScene s;
  const strata_hot_type type = {"Forks", nullptr, [](void*, size_t) {
                                  ++g_ended;
                                  const pid_t child = fork();
                                  if (child == 0) {
                                    g_collector->RenewInChild();
                                    _exit(OwnRoundGoesOn() ? 0 : 1);
                                  }
                                  int status = 1;
                                  EXPECT_EQ(waitpid(child, &status, 0), child);
                                  EXPECT_EQ(status, 0);
                                }};
  RetireAndRound(s, &type);
}

// And that of a thread that is not there ends.
TEST(ObjectCollector, ARoundOfAnotherThreadEndsInAChild) {
  HotScene s;
  const strata_hot_type type = {"Asks", nullptr, [](void*, size_t) {
                                  ++g_ended;
                                  std::thread([] {
                                    const pid_t child = fork();
                                    if (child == 0) {
                                      g_collector->RenewInChild();
                                      _exit(g_collector->Round(RoundBounds::kAtOnce) ? 0 : 1);
                                    }
                                    int status = 1;
                                    EXPECT_EQ(waitpid(child, &status, 0), child);
                                    EXPECT_EQ(status, 0);
                                  }).join();
                                }};
  RetireAndRound(s, &type);
}

}  // namespace
}  // namespace strata
