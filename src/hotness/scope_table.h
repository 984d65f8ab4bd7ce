// The operations that run now: which there are, since when, and what they use. An operation claims
// a slot; the slots are the domain's memory and stay, so the collector may read them at any time,
// and whatever an operation used may be freed or change hands before it ends. After the hazard
// pointers of Michael (IEEE TPDS 15(6), 2004) and the epochs of Fraser (UCAM-CL-TR-579, 2004). Sits
// in hotness.
//
// The domain's phase says whether operations list what they use. Who begins writes his slot before
// he reads the phase, and the collector writes the phase before it reads the slots, both seq_cst:
// so when it has seen no slot with the old phase, everybody lists.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/moment.h"

namespace strata {

// Whether operations list what they use.
enum class Listing : bool { kOff, kOn };

// What operations go by: a number that grows, and that.
class HotPhase {
 public:
  constexpr HotPhase() = default;
  constexpr HotPhase(uint64_t era, Listing listing)
      : raw_(era << 1 | (listing == Listing::kOn ? 1 : 0)) {}
  static constexpr HotPhase FromRaw(uint64_t raw) {
    HotPhase p;
    p.raw_ = raw;
    return p;
  }
  constexpr uint64_t era() const { return raw_ >> 1; }
  constexpr bool lists() const { return (raw_ & 1) != 0; }
  constexpr Listing listing() const { return lists() ? Listing::kOn : Listing::kOff; }
  constexpr uint64_t raw() const { return raw_; }

 private:
  uint64_t raw_ = 0;  // 0: not known yet
};

struct alignas(64) ScopeSlot {
  static constexpr uint32_t kObjects = 60;
  static constexpr uint32_t kEverything = ~0u;

  std::atomic<uintptr_t> thread{0};  // who runs an operation here; 0: nobody
  std::atomic<uint64_t> phase{0};
  std::atomic<uint32_t> used{0};   // kEverything: more than there is room for
  std::atomic<uint32_t> known{0};  // 0: not yet in the list of slots; 1: just entered; 2: in it
  std::atomic<uintptr_t> objects[kObjects];
  uint32_t repeats = 0;  // uses of what was listed already, where they are counted; the owner's

  bool ListsEverything() const { return used.load(std::memory_order_relaxed) == kEverything; }

  // Owner of the slot only. False: it was here already and is valid.
  bool List(uintptr_t object) {
    const uint32_t n = used.load(std::memory_order_relaxed);
    if (n == kEverything) return true;
    for (uint32_t i = n; i-- > 0;) {
      if (objects[i].load(std::memory_order_relaxed) == object) return false;
    }
    if (n == kObjects) {
      used.store(kEverything, std::memory_order_seq_cst);
      return true;
    }
    objects[n].store(object, std::memory_order_relaxed);
    used.store(n + 1, std::memory_order_seq_cst);  // before the guide is looked at again
    return true;
  }
  void UnlistLast() {
    const uint32_t n = used.load(std::memory_order_relaxed);
    if (n != kEverything && n > 0) used.store(n - 1, std::memory_order_release);
  }
  bool Lists(uintptr_t object) const {
    const uint32_t n = used.load(std::memory_order_seq_cst);
    if (n == kEverything) return true;
    for (uint32_t i = 0; i < n; ++i) {
      if (objects[i].load(std::memory_order_relaxed) == object) return true;
    }
    return false;
  }
};

class ScopeTable {
 public:
  static constexpr uint32_t kSlots = 512;

  // memory: room for kSlots of them, zero.
  explicit ScopeTable(ScopeSlot* memory) : slots_(memory) {}

  // A slot for an operation that begins; null where all are taken, which End is told, too.
  ScopeSlot* Begin() {
    const auto self = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
    uint32_t at = static_cast<uint32_t>((self >> 6) * 0x9e3779b1u >> 7);
    for (uint32_t tried = 0; tried < kSlots; ++tried, ++at) {
      ScopeSlot* s = &slots_[at % kSlots];
      if (s->thread.load(std::memory_order_relaxed) != 0) continue;
      if (s->known.load(std::memory_order_acquire) != 2) Enter(s);
      uintptr_t nobody = 0;
      // seq_cst: before the phase is read.
      if (!s->thread.compare_exchange_strong(nobody, self, std::memory_order_seq_cst)) continue;
      s->phase.store(phase_.load(std::memory_order_seq_cst), std::memory_order_release);
      return s;
    }
    without_slot_.fetch_add(1, std::memory_order_seq_cst);
    return nullptr;
  }

  // release: what the operation did is seen by who finds it ended.
  void End(ScopeSlot* s) {
    if (s == nullptr) {
      without_slot_.fetch_sub(1, std::memory_order_release);
      return;
    }
    s->phase.store(0, std::memory_order_relaxed);
    s->repeats = 0;
    s->used.store(0, std::memory_order_relaxed);
    s->thread.store(0, std::memory_order_release);
  }

  HotPhase phase() const { return HotPhase::FromRaw(phase_.load(std::memory_order_seq_cst)); }

  // The rest is the collector's, but for Advance, which one at a time may call.

  void SetListing(Listing listing) {
    uint64_t raw = phase_.load(std::memory_order_relaxed);
    while (!phase_.compare_exchange_weak(raw, HotPhase(raw >> 1, listing).raw(),
                                         std::memory_order_seq_cst)) {
    }
  }
  // Whether every operation that runs lists what it uses.
  bool AllList() const {
    return All([](HotPhase p) { return p.lists(); });
  }
  // Begins a new era, if all that run began in this one, and returns it: then nobody uses what was
  // retired two eras before. 0: not now.
  uint64_t Advance() {
    const HotPhase now = phase();
    if (!All([now](HotPhase p) { return p.era() == now.era(); })) return 0;
    uint64_t raw = now.raw();
    const HotPhase next(now.era() + 1, now.listing());
    return phase_.compare_exchange_strong(raw, next.raw(), std::memory_order_seq_cst) ? next.era()
                                                                                      : 0;
  }
  // Whether an operation uses the object, while all list.
  bool InUse(uintptr_t object) const {
    if (without_slot_.load(std::memory_order_seq_cst) != 0) return true;
    return AnySlot([object](const ScopeSlot& s) {
      return s.thread.load(std::memory_order_seq_cst) != 0 && s.Lists(object);
    });
  }

  // In the child of a fork: the operations of threads that are not there have ended.
  void KeepOnlyThisThread() {
    const auto self = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
    const uint32_t entered = entered_.exchange(0, std::memory_order_relaxed);
    for (uint32_t i = 0; i < kSlots && i < entered; ++i)
      list_[i].store(nullptr, std::memory_order_relaxed);
    for (uint32_t i = 0; i < kSlots; ++i) {
      ScopeSlot* s = &slots_[i];
      if (s->known.load(std::memory_order_relaxed) == 0) continue;
      s->known.store(0, std::memory_order_relaxed);
      if (s->thread.load(std::memory_order_relaxed) == self) {
        Enter(s);
      } else {
        End(s);
      }
    }
    without_slot_.store(0, std::memory_order_relaxed);
  }

 private:
  // Puts a slot into the list of those that were ever used, before its first use.
  void Enter(ScopeSlot* s) {
    uint32_t state = 0;
    if (s->known.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) {
      const uint32_t i = entered_.fetch_add(1, std::memory_order_seq_cst);
      list_[i].store(s, std::memory_order_release);
      s->known.store(2, std::memory_order_release);
      return;
    }
    for (unsigned n = 0; s->known.load(std::memory_order_acquire) == 1; ++n) WaitBriefly(n);
  }

  template <class F>
  bool AnySlot(F f) const {
    const uint32_t n = entered_.load(std::memory_order_seq_cst);
    for (uint32_t i = 0; i < n && i < kSlots; ++i) {
      const ScopeSlot* s = list_[i].load(std::memory_order_acquire);
      if (s != nullptr && f(*s)) return true;
    }
    return false;
  }
  template <class F>
  bool All(F f) const {
    if (without_slot_.load(std::memory_order_seq_cst) != 0) return false;
    return !AnySlot([f](const ScopeSlot& s) {
      if (s.thread.load(std::memory_order_seq_cst) == 0) return false;
      const uint64_t raw = s.phase.load(std::memory_order_seq_cst);
      return raw == 0 || !f(HotPhase::FromRaw(raw));
    });
  }

  ScopeSlot* slots_;
  std::atomic<uint64_t> phase_{HotPhase(1, Listing::kOff).raw()};
  std::atomic<uint32_t> without_slot_{0};
  std::atomic<uint32_t> entered_{0};
  std::atomic<ScopeSlot*> list_[kSlots] = {};
};

}  // namespace strata
