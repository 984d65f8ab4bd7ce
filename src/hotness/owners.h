// Who owns which object: what guides do with objects, but for the moves. Every change of an owner
// takes the lock of the object's owner word (hot_block.h), so the collector is nowhere near. Sits
// in hotness. Thread-safe for different guides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/message.h"
#include "base/moment.h"
#include "hotness/block_pool.h"
#include "hotness/guide.h"
#include "hotness/hot_block.h"
#include "hotness/hot_shelf.h"

namespace strata {

struct ObjectPlace {
  HotBlock* block = nullptr;
  uint32_t index = 0;

  explicit operator bool() const { return block != nullptr; }
  OwnerWord& owner() const { return block->owners[index]; }
};

class Owners {
 public:
  constexpr explicit Owners(BlockPool& pool) : pool_(pool) {}

  // Null where no object of a domain's can start.
  ObjectPlace Find(const void* object) const {
    const auto address = reinterpret_cast<uintptr_t>(object);
    HotBlock* b = pool_.Find(address);
    if (b == nullptr) return {};
    const uint32_t i = b->IndexOf(address);
    return i == b->objects ? ObjectPlace{} : ObjectPlace{b, i};
  }

  void Own(strata_hot_guide* guide, void* object) {
    Leave(guide);
    if (object == nullptr) return;
    GuideRef g(guide);
    const ObjectPlace at = Find(object);
    if (!at) return g.Store(GuideWord::Fresh(object, HotHeap::kForeign));
    const uintptr_t before = at.owner().Lock();
    race_detector::Before(DomainOf(at));
    if (before == OwnerWord::kFree || (before & OwnerWord::kRetired) != 0)
      Misuse(at, "strata_hot_own of an object that was freed", object);
    // Who hands an object from guide to guide uses it, but for one that was only just made.
    g.Store(WasSeen(before) ? GuideWord::Used(object, HeapOf(at))
                            : GuideWord::Fresh(object, HeapOf(at)));
    at.owner().Unlock(reinterpret_cast<uintptr_t>(guide));
  }

  void* Disown(strata_hot_guide* guide) {
    GuideRef g(guide);
    GuideWord w;
    const ObjectPlace at = LockOwned(guide, &w);
    race_detector::After(guide);
    g.Store(GuideWord());
    if (at) at.owner().Unlock(OwnerWord::kNobody);
    return w.object();
  }

  void Move(strata_hot_guide* to, strata_hot_guide* from) {
    GuideRef source(from);
    GuideWord w;
    const ObjectPlace at = LockOwned(from, &w);
    race_detector::After(from);
    race_detector::Before(to);
    GuideRef(to).Store(w);
    source.Store(GuideWord());
    if (at) at.owner().Unlock(reinterpret_cast<uintptr_t>(to));
  }

  // Nobody uses either object. A word that owns nothing may be any data, and is copied.
  void MoveGuides(void* to, void* from, size_t bytes) {
    __builtin_memcpy(to, from, bytes);
    auto* source = static_cast<strata_hot_guide*>(from);
    auto* target = static_cast<strata_hot_guide*>(to);
    for (size_t i = 0; i < bytes / sizeof *source; ++i) {
      const GuideWord w = GuideRef(source + i).Load();
      const ObjectPlace at = w.address() == 0 ? ObjectPlace{} : Find(w.object());
      if (at && (at.owner().Load() & ~OwnerWord::kLock) == reinterpret_cast<uintptr_t>(source + i))
        Move(target + i, source + i);
    }
  }

  void Free(void* object) {
    const ObjectPlace at = Find(object);
    if (!at) Misuse(at, "strata_hot_free of what is no object", object);
    const uintptr_t before = at.owner().Lock();
    if (before == OwnerWord::kFree || (before & OwnerWord::kRetired) != 0)
      Misuse(at, "an object was freed twice", object);
    at.block->shelf.load(std::memory_order_relaxed)->Free(at.block, at.index);
  }

  size_t SizeOf(const void* object) const {
    const ObjectPlace at = Find(object);
    return at && at.owner().Load() != OwnerWord::kFree ? at.block->SizeOfObjects() : 0;
  }

  static const void* DomainOf(const ObjectPlace& at) {
    return &at.block->shelf.load(std::memory_order_relaxed)->domain;
  }
  static HotHeap HeapOf(const ObjectPlace& at) {
    return at.block->shelf.load(std::memory_order_relaxed)->heap;
  }

  // One line that names the object's type, where the program told it, and the end.
  [[noreturn]] static void Misuse(const ObjectPlace& at, const char* what, const void* where) {
    const HotShelf* shelf = at ? at.block->shelf.load(std::memory_order_relaxed) : nullptr;
    const strata_hot_type* type = shelf == nullptr ? nullptr : shelf->type;
    Message m;
    m.Text(what).Text(": ").Hex(reinterpret_cast<uintptr_t>(where));
    if (type != nullptr && type->name != nullptr && type->name[0] != '\0')
      m.Text(", ").Text(type->name);
    m.Send();
    __builtin_abort();
  }

 private:
  // Whether a window has passed over the object of that owner's word, whose lock the caller has.
  static bool WasSeen(uintptr_t owner) {
    if (!OwnerWord::IsGuide(owner)) return owner == OwnerWord::kNobodyNow;
    return !GuideRef(reinterpret_cast<strata_hot_guide*>(owner)).Load().fresh();
  }

  // The object of the guide with its owner's lock taken; null, without one, where it owns nothing
  // that is a domain's. *w: the guide's word, which nobody changes until the lock is dropped.
  ObjectPlace LockOwned(strata_hot_guide* guide, GuideWord* w) const {
    GuideRef g(guide);
    const auto self = reinterpret_cast<uintptr_t>(guide);
    for (unsigned n = 0;; ++n) {
      *w = g.Load();
      if (w->address() == 0 || w->heap() == HotHeap::kForeign) return {};
      const ObjectPlace at = Find(w->object());
      if (at && at.owner().TryLock(self)) {
        *w = g.Load();  // readers may have marked it
        return at;
      }
      const uintptr_t owner = at ? at.owner().Load() & ~OwnerWord::kLock : OwnerWord::kFree;
      // The collector has it, or it has just been moved, and the guide says where.
      if (owner != self && g.Load().address() == w->address())
        Misuse(at, "a guide was copied as bytes, or its object freed", guide);
      WaitBriefly(n);
    }
  }

  // What the guide owned is nobody's. It may have lost that to another guide, or to Free.
  void Leave(strata_hot_guide* guide) {
    GuideRef g(guide);
    const auto self = reinterpret_cast<uintptr_t>(guide);
    for (unsigned n = 0;; ++n) {
      const GuideWord w = g.Load();
      const ObjectPlace at = w.address() == 0 ? ObjectPlace{} : Find(w.object());
      if (at && at.owner().TryLock(self)) {
        const bool seen = WasSeen(self);
        g.Store(GuideWord());
        return at.owner().Unlock(seen ? OwnerWord::kNobodyNow : OwnerWord::kNobody);
      }
      const uintptr_t owner = at ? at.owner().Load() & ~OwnerWord::kLock : OwnerWord::kFree;
      if (owner != self && g.Load().address() == w.address()) return g.Store(GuideWord());
      WaitBriefly(n);
    }
  }

  BlockPool& pool_;
};

}  // namespace strata
