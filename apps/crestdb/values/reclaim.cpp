// The slots of the threads, the epochs, and what waits in them.
#include "values/reclaim.h"

#include <cstdlib>

namespace crest {

// A thread's claim on its slot.
struct Reclaimer::Ticket {
  Slot* slot = nullptr;
  ~Ticket() {
    if (slot != nullptr) slot->taken.store(false, std::memory_order_release);
  }
};

Reclaimer& Reclaimer::Get() {
  static auto* const one = new Reclaimer;  // outlives all threads
  return *one;
}

Reclaimer::Slot& Reclaimer::Mine() {
  thread_local Ticket ticket;
  if (ticket.slot != nullptr) return *ticket.slot;
  for (size_t i = 0; i < kSlots; ++i) {
    bool expected = false;
    if (slots_[i].taken.load(std::memory_order_relaxed) ||
        !slots_[i].taken.compare_exchange_strong(expected, true, std::memory_order_acquire))
      continue;
    size_t used = used_.load();
    while (used <= i && !used_.compare_exchange_weak(used, i + 1)) {
    }
    ticket.slot = &slots_[i];
    return slots_[i];
  }
  std::abort();  // more threads than any driver of ours starts
}

void Reclaimer::Enter() {
  Slot& slot = Mine();
  if (slot.depth++ != 0) return;
  slot.era.store(era_.load(std::memory_order_seq_cst), std::memory_order_relaxed);
  // Before anything is read from a structure. Pairs with the fence in Retire.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Reclaimer::Leave() {
  Slot& slot = Mine();
  if (--slot.depth == 0) slot.era.store(0, std::memory_order_release);
}

void Reclaimer::Retire(void* object, Free free) {
  Slot& slot = Mine();
  // Whoever begins in a later era than this one finds the object unlinked.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint64_t era = era_.load(std::memory_order_seq_cst);
  Bag& bag = slot.bags[era % kEras];
  if (bag.era != era) {  // three eras old, or more
    Empty(bag);
    bag.era = era;
  }
  bag.objects.push_back({object, free});
  if (++slot.since_look >= kRetiredPerLook) Look(slot);
}

// A new era, if every operation began in this one: then nobody can see what was retired two eras
// ago.
void Reclaimer::Look(Slot& slot) {
  slot.since_look = 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in Enter
  uint64_t era = era_.load(std::memory_order_seq_cst);
  const size_t used = used_.load(std::memory_order_seq_cst);
  bool all = true;
  for (size_t i = 0; i < used && all; ++i) {
    const uint64_t theirs = slots_[i].era.load(std::memory_order_seq_cst);
    all = theirs == 0 || theirs == era;
  }
  if (all && era_.compare_exchange_strong(era, era + 1)) ++era;
  for (Bag& bag : slot.bags) {
    if (bag.era + 2 <= era) Empty(bag);
  }
}

void Reclaimer::Empty(Bag& bag) {
  std::vector<Retired> objects = std::move(bag.objects);
  bag.objects.clear();
  for (const Retired& r : objects) r.free(r.object);
}

void Reclaimer::DrainAll() {
  for (size_t i = 0; i < used_.load(); ++i) {
    for (Bag& bag : slots_[i].bags) Empty(bag);
  }
}

}  // namespace crest
