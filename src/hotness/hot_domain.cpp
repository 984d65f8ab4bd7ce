// What a domain does off the fast path. See hot_domain.h.
#include "hotness/hot_domain.h"

#include "base/check.h"
#include "base/moment.h"
#include "base/race_detector.h"
#include "hotness/mover.h"

namespace strata {
namespace {

constexpr uint32_t kRetiredPerLook = 64;  // so many wait before somebody looks whether they can go

}  // namespace

void* HotDomain::Allocate(size_t size, size_t alignment, const strata_hot_type* type,
                          HotHeap heap) {
  if (alignment == 0 || !IsPowerOfTwo(alignment) || alignment > kNativePageSize) return nullptr;
  if (size > PTRDIFF_MAX - HotBlock::kBytes) return nullptr;
  if (size < sizeof(uint64_t)) size = sizeof(uint64_t);
  if (STRATA_UNLIKELY(checks_ != nullptr) && checks_->TakesPages()) {
    size = RoundUp(size, kNativePageSize);
    alignment = kNativePageSize;
  }
  const SizeClass c = ClassOfAligned(size, alignment);
  const uint32_t bytes = c == SizeClass::kNone ? 0 : InfoOf(c).size;
  HotShelf* shelf = ShelfFor(heap, bytes, type);
  return shelf == nullptr ? nullptr : shelf->Allocate(pool_, size, MayGrow::kYes);
}

HotShelf* HotDomain::ShelfFor(HotHeap heap, uint32_t object_bytes, const strata_hot_type* type) {
  const size_t list = object_bytes == 0 ? 0 : Raw(ClassOfSize(object_bytes));
  std::atomic<HotShelf*>& head = shelves_[static_cast<int>(heap)][list];
  const auto find = [&]() -> HotShelf* {
    for (HotShelf* s = head.load(std::memory_order_acquire); s != nullptr; s = s->next) {
      if (s->type == type) return s;
    }
    return nullptr;
  };
  if (HotShelf* s = find()) return s;
  LockHolder hold(shelves_lock_);
  if (HotShelf* s = find()) return s;
  void* memory = pool_.arena().Allocate(sizeof(HotShelf), alignof(HotShelf));
  if (memory == nullptr) return nullptr;
  auto* s = ::new (memory) HotShelf(*this, heap, object_bytes, type);
  s->next = head.load(std::memory_order_relaxed);
  if (IsOfPages(*s)) s->quarantine = checks_;
  head.store(s, std::memory_order_release);
  return s;
}

void HotDomain::Enter(strata_hot_scope* scope) {
  ScopeSlot* slot = scopes_.Begin();
  // Without a slot nobody knows what the operation uses, so while it runs nothing moves; but a move
  // that has begun must notice its uses.
  const bool lists =
      slot == nullptr || HotPhase::FromRaw(slot->phase.load(std::memory_order_relaxed)).lists();
  scope->expected = lists ? ~uint64_t{0} : GuideWord::kUsed;
  scope->slot = slot;
  scope->domain = reinterpret_cast<strata_hot_domain*>(this);
}

void HotDomain::Leave(strata_hot_scope* scope) {
  auto* d = reinterpret_cast<HotDomain*>(scope->domain);
  auto* slot = static_cast<ScopeSlot*>(scope->slot);
  race_detector::Before(d);
  if (STRATA_UNLIKELY(d->checks_ != nullptr) && slot != nullptr && !d->checks_->spent())
    return d->LeaveChecked(slot);
  d->scopes_.End(slot);
}

void HotDomain::CheckUses(CheckBounds bounds) {
  void* memory = pool_.arena().Allocate(sizeof(UseChecks), alignof(UseChecks));
  if (memory == nullptr) return;
  checks_ = ::new (memory) UseChecks(pool_, bounds);
  for (int heap = 0; heap < kHotHeaps; ++heap) {
    ForEachShelf(static_cast<HotHeap>(heap), [this](HotShelf& s) {
      if (IsOfPages(s)) s.quarantine = checks_;
    });
  }
  scopes_.SetListing(Listing::kOn);
}

void HotDomain::EndQuarantine() {
  if (checks_ != nullptr) checks_->ReleaseAll();
}

void HotDomain::Renew(std::optional<CheckBounds> checks) {
  for (int heap = 0; heap < kHotHeaps; ++heap)
    ForEachShelf(static_cast<HotHeap>(heap), [](HotShelf& s) { s.refused_in = 0; });
  if (!checks) return;
  if (checks_ == nullptr) return CheckUses(*checks);
  checks_->Renew();
  scopes_.SetListing(Listing::kOn);
}

// What this operation used, and no other does, moves to another place of the same heap.
void HotDomain::LeaveChecked(ScopeSlot* slot) {
  constexpr uint32_t kMost = ScopeSlot::kObjects;
  uintptr_t used[kMost];
  uint32_t n = slot->used.load(std::memory_order_relaxed);
  if (n == ScopeSlot::kEverything) n = kMost;
  for (uint32_t i = 0; i < n; ++i) used[i] = slot->objects[i].load(std::memory_order_relaxed);
  scopes_.End(slot);
  if (!checks_->BeginMoves()) return;
  Mover mover(pool_, scopes_);
  for (uint32_t i = 0; i < n; ++i) {
    const ObjectPlace at = owners_.Find(reinterpret_cast<void*>(used[i]));
    if (!at || at.block->object_bytes == 0) continue;
    HotShelf& shelf = *at.block->shelf.load(std::memory_order_relaxed);
    if (shelf.quarantine != nullptr) mover.Move(at.block, at.index, shelf, MayGrow::kYes);
  }
  checks_->EndMoves();
}

// With bounded checks a loop in one operation must not pay for each use in it.
void HotDomain::NoteRepeat(ScopeSlot* slot) const {
  constexpr uint32_t kMany = 1000;
  if (STRATA_LIKELY(checks_ == nullptr) || !checks_->bounded()) return;
  if (++slot->repeats == kMany) slot->used.store(ScopeSlot::kEverything, std::memory_order_seq_cst);
}

void* HotDomain::GetSlow(strata_hot_scope* scope, strata_hot_guide* guide) {
  GuideRef g(guide);
  auto* slot = static_cast<ScopeSlot*>(scope->slot);
  const bool lists = scope->expected != GuideWord::kUsed;
  GuideWord w = g.Load();
  for (unsigned n = 0;;) {
    if (w.address() == 0 || w.heap() == HotHeap::kForeign) return w.object();
    const uintptr_t object = w.address();
    if (lists && slot != nullptr) {
      if (!slot->List(object)) {
        reinterpret_cast<HotDomain*>(scope->domain)->NoteRepeat(slot);
        return w.object();
      }
      if (slot->ListsEverything()) scope->expected = GuideWord::kUsed;  // no need to come here
      w = g.Load(std::memory_order_seq_cst);
      if (w.address() != object || w.held()) {
        slot->UnlistLast();
        if (w.held()) WaitBriefly(n++);
        continue;
      }
    } else if (w.held()) {
      WaitBriefly(n++);
      w = g.Load();
      continue;
    }
    const GuideWord next = w.Without(GuideWord::kLock).With(GuideWord::kUsed);
    if (next == w || g.Exchange(w, next)) return next.object();
    if (lists && slot != nullptr) slot->UnlistLast();
  }
}

bool HotDomain::Exchange(strata_hot_guide* guide, void* expected, void* object) {
  GuideRef g(guide);
  ObjectPlace in;
  if (object != nullptr && (in = owners_.Find(object)) && !OwnerWord::IsNobody(in.owner().Lock()))
    Owners::Misuse(in, "strata_hot_exchange of an object that has an owner", object);
  const HotHeap heap = in ? Owners::HeapOf(in) : HotHeap::kForeign;
  const GuideWord next = object == nullptr ? GuideWord() : GuideWord::Fresh(object, heap);
  GuideWord w = g.Load();
  race_detector::Before(guide);
  for (unsigned n = 0;;) {
    if (w.object() != expected) {
      if (in) in.owner().Unlock(OwnerWord::kNobody);
      return false;
    }
    if (w.held()) {
      WaitBriefly(n++);
      w = g.Load();
    } else if (g.Exchange(w, next)) {
      break;
    }
  }
  if (in) in.owner().Unlock(reinterpret_cast<uintptr_t>(guide));
  if (const ObjectPlace out = expected == nullptr ? ObjectPlace{} : owners_.Find(expected)) {
    out.owner().Lock();  // a collector that was about to move it lets go
    RetireLocked(out, expected);
  }
  return true;
}

void HotDomain::Retire(void* object) {
  const ObjectPlace at = owners_.Find(object);
  if (!at) return;  // not a domain's
  if (!OwnerWord::IsNobody(at.owner().Lock()))
    Owners::Misuse(at, "strata_hot_retire of an object that has an owner, or is gone", object);
  RetireLocked(at, object);
}

// Its owner's word is the caller's; free again afterwards.
void HotDomain::RetireLocked(const ObjectPlace& at, void* object) {
  race_detector::Before(this);
  // After it was taken out of reach: who began in a later era cannot have it.
  std::atomic<uintptr_t>& list = limbo_[scopes_.phase().era() % kEras];
  uintptr_t head = list.load(std::memory_order_relaxed);
  do {
    at.owner().Unlock(head | OwnerWord::kRetired);
  } while (!list.compare_exchange_weak(head, reinterpret_cast<uintptr_t>(object),
                                       std::memory_order_release, std::memory_order_relaxed));
  retired_.fetch_add(1, std::memory_order_relaxed);
  if (since_free_.fetch_add(1, std::memory_order_relaxed) % kRetiredPerLook == kRetiredPerLook - 1)
    FreeRetired();
}

// One at a time: between a new era and the taking of the list no further era may begin, whose
// objects would come into the same list.
void HotDomain::FreeRetired() {
  if (freeing_.exchange(true, std::memory_order_acquire)) return;
  uintptr_t list = 0;
  if (const uint64_t era = scopes_.Advance())
    list = limbo_[(era + 1) % kEras].exchange(0, std::memory_order_acquire);
  freeing_.store(false, std::memory_order_release);
  FreeList(list);
}

void HotDomain::FreeList(uintptr_t object) {
  race_detector::After(this);
  while (object != 0) {
    auto* const p = reinterpret_cast<void*>(object);
    const ObjectPlace at = owners_.Find(p);
    const uintptr_t next = at.owner().Load() & ~OwnerWord::kTags;
    HotShelf& shelf = *at.block->shelf.load(std::memory_order_relaxed);
    if (shelf.type != nullptr && shelf.type->destroy != nullptr)
      shelf.type->destroy(p, at.block->SizeOfObjects());
    at.owner().Lock();
    // Before the last object goes: then the domain may end, and its record serve another.
    retired_.fetch_sub(1, std::memory_order_relaxed);
    shelf.Free(at.block, at.index);
    object = next;
  }
}

HotDomain::Held HotDomain::HeldIn(HotHeap heap) {
  Held sum;
  ForEachShelf(heap, [&](HotShelf& s) {
    sum.objects += s.Live();
    sum.bytes += s.object_bytes == 0 ? s.live_bytes.load(std::memory_order_relaxed)
                                     : s.Live() * s.object_bytes;
  });
  return sum;
}

strata_hot_heap_stats HotDomain::HeapStats(HotHeap heap) {
  const Held held = HeldIn(heap);
  strata_hot_heap_stats sum{held.objects, held.bytes, 0};
  const HotMemory& memory = pool_.memory();
  ForEachShelf(heap, [&](HotShelf& s) {
    for (HotBlock* b = s.first.load(std::memory_order_acquire); b != nullptr; b = b->next) {
      sum.resident_bytes += memory.resident(
          memory.context, reinterpret_cast<void*>(b->base.load(std::memory_order_relaxed)),
          b->bytes.load(std::memory_order_relaxed));
    }
  });
  return sum;
}

size_t HotDomain::LiveObjects(ObjectPlace* first) {
  size_t n = 0;
  for (int heap = 0; heap < kHotHeaps; ++heap) {
    ForEachShelf(static_cast<HotHeap>(heap), [&](HotShelf& s) {
      n += s.Live();
      for (HotBlock* b = s.first.load(std::memory_order_acquire); b != nullptr && !*first;
           b = b->next) {
        for (uint32_t i = 0; i < b->top.load(std::memory_order_relaxed) && !*first; ++i) {
          if (b->owners[i].Load() != OwnerWord::kFree) *first = {b, i};
        }
      }
    });
  }
  return n;
}

// An owner's lock that another thread had at the fork is nobody's now.
void HotDomain::RenewInChild() {
  scopes_.KeepOnlyThisThread();
  freeing_.store(false, std::memory_order_relaxed);
  for (int heap = 0; heap < kHotHeaps; ++heap) {
    ForEachShelf(static_cast<HotHeap>(heap), [](HotShelf& s) {
      for (HotBlock* b = s.first.load(std::memory_order_relaxed); b != nullptr; b = b->next) {
        for (uint32_t i = 0; i < b->top.load(std::memory_order_relaxed); ++i) {
          const uintptr_t w = b->owners[i].Load();
          if ((w & OwnerWord::kLock) != 0) b->owners[i].Store(w & ~OwnerWord::kLock);
        }
      }
    });
  }
}

}  // namespace strata
