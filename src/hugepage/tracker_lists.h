// The lists on which the filler keeps its hugepages, by kind (state and group) and by how good a
// place each is for the next run (Temeraire, Hunter et al., OSDI 2021, HugeFiller): one bit for
// each list, so that the first usable one is a bit scan. An index that is lower within a kind is
// tried first. The array comes from the arena when first needed. As long as there is one hugepage,
// as in small programs, it is on no list: with each change of its longest run it would touch
// another line of the array.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/metadata_arena.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_bitmap.h"
#include "hugepage/placement_group.h"

namespace strata {

class TrackerLists {
 public:
  enum State : uint8_t {
    kRegular,
    kDonated,
    kPartial,   // broken, with free pages that are backed
    kReleased,  // broken, and no free page is backed
    kStates
  };
  struct Kind {
    State state;
    PlacementGroup group = PlacementGroup::kOthers;

    constexpr size_t raw() const { return static_cast<size_t>(group) * kStates + state; }
  };

  explicit TrackerLists(MetadataArena& arena) : arena_(arena) {}

  // False when there is no memory for the lists themselves.
  bool Prepare() {
    if (lists_ == nullptr) {
      // The arena's memory is zero, which is what empty lists are; so nothing is touched before it
      // is used.
      lists_ = static_cast<IntrusiveList<HugeTracker>*>(arena_.Allocate(
          kLists * sizeof(IntrusiveList<HugeTracker>), alignof(IntrusiveList<HugeTracker>)));
    }
    return lists_ != nullptr;
  }

  static Kind KindOf(const HugeTracker& t) {
    if (!t.broken) return {t.donated ? kDonated : kRegular, t.group};
    return {t.free_backed() != 0 ? kPartial : kReleased, t.group};
  }

  size_t count(Kind kind) const { return counts_[kind.raw()]; }

  void Add(HugeTracker* t) {
    const Kind kind = KindOf(*t);
    t->list = static_cast<uint16_t>(Begin(kind) + IndexOf(kind, *t));
    Link(t, kind);
    Rank(t, RankOf(*t));
  }

  void Remove(HugeTracker* t) {
    Unlink(t);
    Rank(t, ReleaseRank::kNone);
  }

  // After anything changed in a linked tracker.
  void Update(HugeTracker* t) {
    const Kind kind = KindOf(*t);
    const size_t list = Begin(kind) + IndexOf(kind, *t);
    Rank(t, RankOf(*t));
    if (list == t->list) return;
    Unlink(t);
    t->list = static_cast<uint16_t>(list);
    Link(t, kind);
  }

  // The best tracker of a kind whose longest free run is at least n.
  HugeTracker* Find(Kind kind, size_t n) const {
    if (counts_[kind.raw()] == 0) return nullptr;
    const size_t first = Begin(kind) + (kind.state == kDonated ? n : n * kChunks);
    if (lone_ != nullptr) return lone_->list >= first ? lone_ : nullptr;
    if (first >= End(kind)) return nullptr;
    const size_t list = nonempty_.NextSet(first);
    return list < End(kind) ? lists_[list].first() : nullptr;
  }

  // Calls f on every tracker of a kind.
  template <class F>
  void ForEach(Kind kind, F f) const {
    if (counts_[kind.raw()] == 0) return;
    if (lone_ != nullptr) return f(lone_);
    for (size_t i = nonempty_.NextSet(Begin(kind)); i < End(kind); i = nonempty_.NextSet(i + 1)) {
      for (HugeTracker* t = lists_[i].first(); t != nullptr;) {
        HugeTracker* next = IntrusiveList<HugeTracker>::Next(t);
        f(t);
        t = next;
      }
    }
  }

  enum Sort : uint8_t { kBroken, kWhole };

  // Calls f on trackers of a sort whose free pages may be released, by how many pages are in use,
  // to within kRankWidth, and then those first that have been so for longest, until f says no.
  template <class F>
  void ForRanks(Sort sort, F f) const {
    const size_t begin = sort * kRanksOfASort, end = begin + kRanksOfASort;
    for (size_t i = ranked_.NextSet(begin); i < end; i = ranked_.NextSet(i + 1)) {
      for (const ReleaseRank* r = ranks_[i].first(); r != nullptr;
           r = IntrusiveList<ReleaseRank>::Next(r)) {
        if (!f(r->tracker, i)) return;
      }
    }
  }

  // Calls f on trackers of a kind, on each once a round. At `steps` of them at most, which it
  // counts down; the next round goes on, with those that were not looked at for longest.
  template <class F>
  void Look(Kind kind, uint32_t round, size_t& steps, F f) {
    if (counts_[kind.raw()] == 0) return;
    const auto look = [&](HugeTracker* t) {
      --steps;
      t->looked_at = round;
      f(*t);
    };
    if (lone_ != nullptr) {
      if (steps != 0 && lone_->looked_at != round) look(lone_);
      return;
    }
    size_t i = nonempty_.NextSet(std::max<size_t>(search_[kind.raw()], Begin(kind)));
    for (; i < End(kind); i = nonempty_.NextSet(i + 1)) {
      search_[kind.raw()] = static_cast<uint16_t>(i);
      for (HugeTracker* t = lists_[i].first(); t->looked_at != round; t = lists_[i].first()) {
        if (steps == 0) {
          // Others have their turn, if this one had it.
          if (lists_[i].last()->looked_at == round)
            search_[kind.raw()] = static_cast<uint16_t>(i + 1);
          return;
        }
        look(t);
        lists_[i].Remove(t);
        lists_[i].PushBack(t);
      }
    }
    search_[kind.raw()] = static_cast<uint16_t>(Begin(kind));
  }

  // The first tracker of a kind that f accepts; null when there is none.
  template <class F>
  HugeTracker* FindIn(Kind kind, F f) const {
    if (counts_[kind.raw()] == 0) return nullptr;
    if (lone_ != nullptr) return f(*lone_) ? lone_ : nullptr;
    for (size_t i = nonempty_.NextSet(Begin(kind)); i < End(kind); i = nonempty_.NextSet(i + 1)) {
      for (HugeTracker* t = lists_[i].first(); t != nullptr;
           t = IntrusiveList<HugeTracker>::Next(t)) {
        if (f(*t)) return t;
      }
    }
    return nullptr;
  }

  // 0: 65 allocations or more ... 7: one. Each is as likely to go as another, so a hugepage that
  // holds few is the likelier to become empty: leave it alone.
  static size_t ChunkOf(size_t allocations) {
    const size_t zeros = static_cast<size_t>(std::countl_zero(uint64_t{2} * allocations - 1));
    return zeros > 56 ? zeros - 56 : 0;
  }

 private:
  static constexpr size_t kChunks = 8;
  // Where the lists of each state begin among those of a group.
  static constexpr size_t kBase[kStates + 1] = {0, 2048, 2304, 4352, 6400};
  static constexpr size_t kListsOfAGroup = kBase[kStates];
  static constexpr size_t kLists = kListsOfAGroup * kNumPlacementGroups;
  static constexpr size_t kKinds = kStates * kNumPlacementGroups;
  static_assert(kLists < HugeTracker::kNoList);

  static constexpr size_t Begin(Kind kind) {
    return static_cast<size_t>(kind.group) * kListsOfAGroup + kBase[kind.state];
  }
  static constexpr size_t End(Kind kind) {
    return static_cast<size_t>(kind.group) * kListsOfAGroup + kBase[kind.state + 1];
  }

  static size_t IndexOf(Kind kind, const HugeTracker& t) {
    return kind.state == kDonated ? t.longest() : t.longest() * kChunks + ChunkOf(t.allocations());
  }

  static Kind KindOfList(size_t list) {
    size_t state = 0;
    while (list % kListsOfAGroup >= kBase[state + 1]) ++state;
    return {static_cast<State>(state), static_cast<PlacementGroup>(list / kListsOfAGroup)};
  }

  static constexpr size_t kRankWidth = 8;
  static constexpr size_t kRanksOfASort = kPagesPerHugePage / kRankWidth * kNumPlacementGroups,
                          kRanks = 2 * kRanksOfASort;
  static_assert(kRanks <= ReleaseRank::kNone);

  // Among equals by group, in the order of giving up.
  static uint8_t RankOf(const HugeTracker& t) {
    if (t.free_backed() == 0) return ReleaseRank::kNone;
    const size_t width = std::min(t.used(), kPagesPerHugePage - 1) / kRankWidth;
    return static_cast<uint8_t>((t.broken ? kBroken : kWhole) * kRanksOfASort +
                                width * kNumPlacementGroups + static_cast<size_t>(t.group));
  }
  void Rank(HugeTracker* t, uint8_t list) {
    ReleaseRank& r = t->rank;
    if (list == r.list) return;
    if (r.list != ReleaseRank::kNone) {
      ranks_[r.list].Remove(&r);
      if (ranks_[r.list].empty()) ranked_.ClearRange(r.list, 1);
    }
    r.list = list;
    if (list == ReleaseRank::kNone) return;
    r.tracker = t;
    ranks_[list].PushBack(&r);
    ranked_.SetRange(list, 1);
  }

  void Unlink(HugeTracker* t) {
    if (t == lone_) {
      lone_ = nullptr;
    } else {
      lists_[t->list].Remove(t);
      if (lists_[t->list].empty()) nonempty_.ClearRange(t->list, 1);
    }
    --counts_[KindOfList(t->list).raw()];
    t->list = HugeTracker::kNoList;
  }

  void Link(HugeTracker* t, Kind kind) {
    ++counts_[kind.raw()];
    if (STRATA_LIKELY(had_two_)) return PutOnList(t);
    HugeTracker* other = lone_;
    lone_ = other == nullptr ? t : nullptr;
    if (other == nullptr) return;
    had_two_ = true;
    PutOnList(other);
    PutOnList(t);
  }
  void PutOnList(HugeTracker* t) {
    lists_[t->list].PushFront(t);
    nonempty_.SetRange(t->list, 1);
  }

  MetadataArena& arena_;
  IntrusiveList<HugeTracker>* lists_ = nullptr;
  HugeTracker* lone_ = nullptr;  // the only one, until there are two for the first time
  bool had_two_ = false;
  size_t counts_[kKinds] = {};
  PageBitmap<kLists> nonempty_;
  IntrusiveList<ReleaseRank> ranks_[kRanks];
  PageBitmap<kRanks> ranked_;
  uint16_t search_[kKinds] = {};  // the list with which a look at each kind goes on
};

}  // namespace strata
