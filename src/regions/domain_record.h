// The records that domains of moving objects live in, and the handles by which programs name a
// domain: the record's address, and in its lower bits how many domains the record served before. So
// the handle of a domain that has ended is known, until its record has served as many as the bits
// count; the oldest record serves next, which makes that long. Sits in regions.
#pragma once

#include <cstdint>

#include "strata/hot.h"

namespace strata {

struct alignas(256) DomainRecord {
  static constexpr uintptr_t kGenerations = 256;
  enum class State : uint8_t { kLives, kEnds, kGone, kSpare };

  State state = State::kLives;
  uint8_t generation = 0;  // wraps around
  DomainRecord* next_spare = nullptr;

  strata_hot_domain* Handle() const {
    return reinterpret_cast<strata_hot_domain*>(reinterpret_cast<uintptr_t>(this) | generation);
  }
  static DomainRecord& Of(strata_hot_domain* handle) {
    return *reinterpret_cast<DomainRecord*>(reinterpret_cast<uintptr_t>(handle) &
                                            ~(kGenerations - 1));
  }
  // Whether the handle's domain lives in it, and nobody has begun to end it.
  bool Serves(strata_hot_domain* handle) const {
    return state == State::kLives && handle == Handle();
  }
  bool HasEnded() const { return state >= State::kGone; }
};
static_assert(alignof(DomainRecord) == DomainRecord::kGenerations);

// First in, first out.
class SpareRecords {
 public:
  void Put(DomainRecord* r) {
    r->state = DomainRecord::State::kSpare;
    ++r->generation;
    r->next_spare = nullptr;
    (first_ == nullptr ? first_ : last_->next_spare) = r;
    last_ = r;
  }
  // Null: there is none.
  DomainRecord* Take() {
    DomainRecord* const r = first_;
    if (r == nullptr) return nullptr;
    first_ = r->next_spare;
    r->state = DomainRecord::State::kLives;
    return r;
  }

 private:
  DomainRecord* first_ = nullptr;
  DomainRecord* last_ = nullptr;  // where there is a first
};

}  // namespace strata
