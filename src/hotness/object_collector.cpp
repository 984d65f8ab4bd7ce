// A round of the collector. See object_collector.h; advice on pages is in cold_pages.cpp.
#include "hotness/object_collector.h"

#include <algorithm>

#include "base/check.h"

namespace strata {
namespace {

constexpr uint64_t kEpochNs = 2'000'000;
constexpr uint64_t kLongestWaitNs = 100'000'000;  // for operations to end
constexpr uint64_t kPauseNs = 20'000;
constexpr uint32_t kStepObjects = 4096;  // looked at between two chances for a fork
constexpr uint32_t kAhead = 16;          // guides that are fetched ahead
constexpr uint32_t kMovesPerClock = 64;
// A block with a hole for two objects is emptied: who left pays for two moves. Where hardly
// anything moved in a round it is worth more.
constexpr uint32_t kHoles = 3, kHolesWhenCalm = 8, kCalm = 256;
constexpr int64_t kRoomToGrow = int64_t{64} << 20;
constexpr uint64_t kSwapToGrow = uint64_t{256} << 20;
constexpr uint32_t kMostIdleRounds = 4;  // the period doubles with each, 16 times at the most

void Sum(std::atomic<uint64_t>& n, uint64_t by) {
  n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

// Near a memory limit only where the kernel can make room: a move then costs what it pages out, and
// what it tidies is paged out instead for good.
MayGrow MayGrowNow(const HotMemory& memory) {
  const bool room = memory.headroom(memory.context) >= kRoomToGrow ||
                    memory.free_swap(memory.context) >= kSwapToGrow;
  return room ? MayGrow::kYes : MayGrow::kNo;
}

}  // namespace

void ObjectCollector::Renew(ObjectCollector& ended, const CollectorOptions& options) {
  HotDomain& domain = ended.domain_;
  Candidate* const room = ended.candidates_;
  ended.~ObjectCollector();
  ::new (&ended) ObjectCollector(domain, options);
  ended.candidates_ = room;
}

bool ObjectCollector::Round(RoundBounds bounds) {
  uintptr_t nobody = 0;
  if (!runner_.compare_exchange_strong(nobody, Self(), std::memory_order_acquire)) return false;
  const HotMemory& memory = domain_.pool().memory();
  const uint64_t began = memory.thread_cpu_ns(memory.context);
  if (Prepare()) {
    EndLists();  // a domain whose checks are over need not have another epoch
    Window w;
    w.round = counts_.rounds.load(std::memory_order_relaxed) + 1;
    const uint64_t now = memory.now_ns(memory.context);
    const uint64_t passed = std::min<uint64_t>(now - last_round_ns_, 60'000'000'000);
    w.budget = bounds == RoundBounds::kAtOnce
                   ? ~uint64_t{0}
                   : options_.bytes_per_second / 1000 * (passed / 1'000'000);
    w.grow = MayGrowNow(memory);
    last_round_ns_ = now;
    for (int heap = 0; heap < kHotHeaps; ++heap)
      domain_.ForEachShelf(static_cast<HotHeap>(heap), [&](HotShelf& s) { ScanShelf(s, w); });
    MoveAll(w);
    for (int heap = 0; heap < kHotHeaps; ++heap)
      domain_.ForEachShelf(static_cast<HotHeap>(heap), [&](HotShelf& s) { Drain(s, w); });
    MoveAll(w);
    domain_.FreeRetired();
    EndDraining();
    GiveBackEmpty(1, nullptr);
    Decide(w);
    Reclaim(w);
    const uint64_t cpu = memory.thread_cpu_ns(memory.context) - began;
    Sum(counts_.cpu_ns, cpu);
    Sum(counts_.rounds, 1);
    Schedule(w, cpu);
  }
  runner_.store(0, std::memory_order_release);
  return true;
}

bool ObjectCollector::Prepare() {
  if (candidates_ == nullptr) {
    candidates_ = static_cast<Candidate*>(
        domain_.pool().arena().Allocate(kCandidates * sizeof(Candidate), alignof(Candidate)));
  }
  return candidates_ != nullptr;
}

void ObjectCollector::ScanShelf(HotShelf& shelf, Window& w) {
  for (HotBlock* b = shelf.first.load(std::memory_order_acquire); b != nullptr; b = b->next)
    ScanBlock(shelf, b, w);
}

void ObjectCollector::ScanBlock(HotShelf& shelf, HotBlock* b, Window& w) {
  const uint32_t top = b->top.load(std::memory_order_acquire);
  uintptr_t last_page = 0;
  for (uint32_t from = 0; from < top; from += kStepObjects) {
    {
      LockHolder hold(step_);
      const uint32_t to = std::min(top, from + kStepObjects);
      for (uint32_t i = from; i < to; ++i) {
        if (i + kAhead < to)
          __builtin_prefetch(reinterpret_cast<void*>(b->owners[i + kAhead].Load()));
        Note(shelf, b, i, &last_page, w);
      }
    }
    // Large objects change their list, along which this one goes.
    if (shelf.object_bytes != 0 && waiting_ + kStepObjects > kCandidates) {
      MoveAll(w);
      GiveBackEmpty(1, b);  // so that a round needs little memory beside what it empties
    }
  }
}

// One guide: what it says of the window that ends, and where its object should be.
void ObjectCollector::Note(HotShelf& shelf, HotBlock* b, uint32_t i, uintptr_t* last_page,
                           Window& w) {
  OwnerWord& word = b->owners[i];
  const uintptr_t owner = word.Load();
  if (!OwnerWord::IsGuide(owner) || !word.TryLock(owner)) return;
  GuideRef g(reinterpret_cast<strata_hot_guide*>(owner));
  GuideWord seen = g.Load(std::memory_order_relaxed);
  bool here = true;
  while ((here = seen.address() == b->AddressOf(i) && !seen.SeenIn(w.round)) &&
         !g.Exchange(seen, seen.NextWindow(w.round))) {
  }
  word.Unlock(owner);
  if (!here || seen.fresh()) return;
  const size_t bytes = b->SizeOfObjects();
  const uint32_t cold_after = counts_.cold_after.load(std::memory_order_relaxed);
  if (seen.used()) {
    w.used_bytes += bytes;
    if (shelf.heap == HotHeap::kCold) w.cold_used_bytes += bytes;
    const uintptr_t first = b->AddressOf(i) / kNativePageSize;
    const uintptr_t last = (b->AddressOf(i) + bytes - 1) / kNativePageSize;
    w.used_pages += last - first + (first == *last_page ? 0 : 1);
    *last_page = last;
    if (shelf.heap != HotHeap::kHot) Add(b, i, HotHeap::kHot, w);
  } else if (shelf.heap != HotHeap::kCold && seen.idle() + 1 >= cold_after) {
    Add(b, i, HotHeap::kCold, w);
  }
}

void ObjectCollector::Add(HotBlock* b, uint32_t i, HotHeap to, Window& w) {
  if (w.gave_up || waiting_ == kCandidates) return;
  const size_t bytes = b->SizeOfObjects();
  if (w.budget < bytes) return;
  const HotShelf& from = *b->shelf.load(std::memory_order_relaxed);
  if (w.refused && HasRefused(domain_.ShelfFor(to, from.object_bytes, from.type), w)) return;
  w.budget -= bytes;
  candidates_[waiting_++] = {b, i, to};
}

// In epochs of about two milliseconds, since operations are slower in them.
void ObjectCollector::MoveAll(Window& w) {
  const HotMemory& memory = domain_.pool().memory();
  uint32_t at = 0;
  while (at < waiting_ && !w.gave_up) {
    if (!BeginEpoch()) {
      w.gave_up = true;
      break;
    }
    {
      LockHolder hold(step_);
      const uint64_t until = memory.now_ns(memory.context) + kEpochNs;
      do {
        const uint32_t to = std::min(waiting_, at + kMovesPerClock);
        for (; at < to; ++at) w.moved += MoveOne(candidates_[at], w);
      } while (at < waiting_ && memory.now_ns(memory.context) < until);
    }
    EndEpoch();
  }
  waiting_ = 0;
}

// From when it returns true on, every operation lists what it uses.
bool ObjectCollector::BeginEpoch() {
  const HotMemory& memory = domain_.pool().memory();
  domain_.scopes().SetListing(Listing::kOn);
  const uint64_t until = memory.now_ns(memory.context) + kLongestWaitNs;
  while (!domain_.scopes().AllList()) {
    if (memory.now_ns(memory.context) > until) {
      EndLists();
      Sum(counts_.epochs_given_up, 1);
      return false;
    }
    memory.pause_ns(memory.context, kPauseNs);
  }
  return true;
}

void ObjectCollector::EndEpoch() {
  EndLists();
  Sum(counts_.epochs, 1);
}

void ObjectCollector::EndLists() {
  if (!domain_.always_lists()) domain_.scopes().SetListing(Listing::kOff);
}

uint64_t ObjectCollector::MoveOne(const Candidate& c, Window& w) {
  HotShelf& from = *c.block->shelf.load(std::memory_order_relaxed);
  const size_t bytes = c.block->SizeOfObjects();
  if (c.block->object_bytes == 0) {
    if (!Relabel(c.block, c.to)) return 0;
    Count(MoveResult::kMoved, from.heap, c.to, 0);
    return 1;
  }
  HotShelf* to = domain_.ShelfFor(c.to, from.object_bytes, from.type);
  if (HasRefused(to, w)) return 0;
  const MoveResult result =
      to == nullptr ? MoveResult::kNoMemory : mover_.Move(c.block, c.index, *to, w.grow);
  Count(result, from.heap, c.to, bytes);
  if (result == MoveResult::kNoMemory || result == MoveResult::kNearLimit) {
    w.refused = true;
    if (to != nullptr) to->refused_in = w.round;
  }
  return result == MoveResult::kMoved ? 1 : 0;
}

// A large object has its pages to itself: it stays, and counts as the other heap's.
bool ObjectCollector::Relabel(HotBlock* b, HotHeap to) {
  HotShelf& from = *b->shelf.load(std::memory_order_relaxed);
  HotShelf* target = domain_.ShelfFor(to, 0, from.type);
  const uintptr_t owner = b->owners[0].Load();
  if (target == nullptr || !OwnerWord::IsGuide(owner) || !b->owners[0].TryLock(owner)) return false;
  GuideRef g(reinterpret_cast<strata_hot_guide*>(owner));
  GuideWord w = g.Load();
  bool here = true;
  while ((here = w.address() == b->AddressOf(0)) && !g.Exchange(w, w.At(w.object(), to))) {
  }
  if (here) {
    from.TakeOut(b);
    target->PutIn(b);
    b->shelf.store(target, std::memory_order_relaxed);
    domain_.pool().Advise(w.object(), b->bytes.load(std::memory_order_relaxed),
                          to == HotHeap::kCold ? PageAdvice::kNoHuge : PageAdvice::kHuge);
  }
  b->owners[0].Unlock(owner);
  return here;
}

// Empties the emptiest blocks of a shelf with much room into its others, and a block of hot objects
// that is full of holes into a fresh one: what is used must lie close together, not only on few
// hugepages.
void ObjectCollector::Drain(HotShelf& shelf, Window& w) {
  if (shelf.object_bytes == 0 || w.gave_up) return;
  const size_t live = shelf.objects.load(std::memory_order_relaxed);
  const size_t capacity = shelf.capacity.load(std::memory_order_relaxed);
  size_t room = capacity - live;
  if (room <= live / 3) return;
  const bool closes_holes = shelf.heap == HotHeap::kHot && w.grow == MayGrow::kYes;
  const uint32_t holes_in = w.moved * kCalm <= live ? kHolesWhenCalm : kHoles;
  for (HotBlock* b = shelf.first.load(std::memory_order_acquire); b != nullptr; b = b->next) {
    const uint32_t used = b->used.load(std::memory_order_relaxed);
    const bool spare = used <= b->objects / 2 && room >= b->objects + used;
    if (used == 0 || !(spare || (closes_holes && HasHoles(*b, holes_in)))) continue;
    if (!shelf.BeginDraining(b)) continue;
    if (spare) room -= b->objects;
    for (uint32_t i = 0; i < b->top.load(std::memory_order_relaxed); ++i) {
      if (OwnerWord::IsGuide(b->owners[i].Load())) Add(b, i, shelf.heap, w);
      if (waiting_ == kCandidates) MoveAll(w);
    }
  }
}

// Among the places up to the last one that was ever taken, one in `in`.
bool ObjectCollector::HasHoles(const HotBlock& b, uint32_t in) {
  const uint64_t top = b.top.load(std::memory_order_relaxed);
  return uint64_t{b.used.load(std::memory_order_relaxed)} * in <= top * (in - 1);
}

void ObjectCollector::GiveBackEmpty(uint32_t keep, const HotBlock* here) {
  for (int h = 0; h < kHotHeaps; ++h) {
    const auto heap = static_cast<HotHeap>(h);
    domain_.ForEachShelf(heap, [&](HotShelf& s) {
      LockHolder hold(step_);
      s.TakeOutEmpty(heap == HotHeap::kNew && s.object_bytes != 0 ? keep : 0, here,
                     [&](HotBlock* b) { domain_.pool().Give(b, heap); });
    });
  }
}

void ObjectCollector::EndDraining() {
  for (int h = 0; h < kHotHeaps; ++h)
    domain_.ForEachShelf(static_cast<HotHeap>(h), [](HotShelf& s) { s.EndDraining(); });
}

void ObjectCollector::Decide(const Window& w) {
  const PromotionPlan plan =
      PromotionPolicy::Decide({w.used_bytes, w.cold_used_bytes, target(),
                               counts_.cold_after.load(std::memory_order_relaxed),
                               counts_.rounds.load(std::memory_order_relaxed) + 1});
  counts_.cold_after.store(plan.cold_after, std::memory_order_relaxed);
  counts_.rate.store(plan.rate, std::memory_order_relaxed);
  counts_.utilization.store(
      w.used_pages == 0
          ? 0
          : static_cast<double>(w.used_bytes) / static_cast<double>(w.used_pages * kNativePageSize),
      std::memory_order_relaxed);
  page_out_ = plan.page_out;
}

void ObjectCollector::Schedule(const Window& w, uint64_t cpu_ns) {
  const bool misses = counts_.rate.load(std::memory_order_relaxed) > target();
  const bool gains = w.moved != 0 || (misses && !w.refused);
  idle_rounds_ = gains ? 0 : std::min(idle_rounds_ + 1, kMostIdleRounds);
  const auto by_share = static_cast<uint64_t>(static_cast<double>(cpu_ns) / options_.cpu_share);
  const uint64_t period = std::max(options_.period_ns << idle_rounds_, by_share);
  due_ns_.store(last_round_ns_ + period, std::memory_order_relaxed);
}

void ObjectCollector::Count(MoveResult result, HotHeap from, HotHeap to, size_t bytes) {
  switch (result) {
    case MoveResult::kMoved:
      Sum(counts_.moves, 1);
      Sum(counts_.moved_bytes, bytes);
      if (from != to) Sum(to == HotHeap::kHot ? counts_.promotions : counts_.demotions, 1);
      return;
    case MoveResult::kInUse:
      return Sum(counts_.in_use, 1);
    case MoveResult::kUsed:
      return Sum(counts_.used, 1);
    case MoveResult::kNoMemory:
      return Sum(counts_.no_memory, 1);
    case MoveResult::kNearLimit:
      return Sum(counts_.near_limit, 1);
    case MoveResult::kGone:
      return;
  }
}

}  // namespace strata
