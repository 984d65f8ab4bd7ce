// What a process owes for its growth while the resource is scarce. Sits in price; knows no clock
// and no kernel, so tests drive it. Guarded by its owner.
//
// Growth is what is held beyond the most that was held of late: who stands still, or swings within
// its bounds, owes nothing. Giving back pays debts, and what it paid for counts as growth again
// when it is taken anew. The rest of what was given back is forgotten, two thirds of it within a
// minute, as others may have it by then.
//
// Threads that wait have a place each in what is owed: who came first goes first, and touches its
// block before the next one's is paid for. Freed all at once by time, they would take together what
// each was to have alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "price/price_law.h"

namespace strata {

class GrowthAccount {
 public:
  // Brings the account up to date: so much is held now. Time pays debts, by the income of the
  // moment.
  void Settle(const Supply& s, const Buyer& b, const PriceTerms& t, uint64_t now_ns) {
    const double seconds = now_ns > last_ns_ ? static_cast<double>(now_ns - last_ns_) * 1e-9 : 0;
    const bool first = last_ns_ == 0;
    last_ns_ = now_ns;  // one that went back, as in a child's time namespace, goes on from there
    if (first) high_ = held_ = b.holds;
    const bool scarce = IsScarce(s, t);
    if (b.holds < held_) GiveBack(held_ - b.holds);
    held_ = b.holds;
    if (held_ > high_) {
      if (scarce) Owe(held_ - high_);
      high_ = held_;
    } else if (!first) {
      high_ = held_ + (high_ - held_) * std::max(1 - seconds / kForgets, 0.0);
    }
    debt_ = scarce ? std::max(debt_ - Income(s, b, t) * seconds, 0.0) : 0;
  }

  // Nothing is owed, and what is held next is no growth. The places of those who wait stay, before
  // those of newcomers.
  void Restart() {
    const double incurred = incurred_;
    *this = {};
    incurred_ = incurred;
  }

  double debt() const { return debt_; }

  // Behind all that is owed now.
  double Place() const { return incurred_; }
  // Of what is owed, the part up to that place.
  double OwedUpTo(double place) const {
    return std::clamp(place - (incurred_ - debt_), 0.0, debt_);
  }

 private:
  static constexpr double kForgets = 60;  // seconds

  void Owe(double amount) {
    debt_ += amount;
    incurred_ += amount;
  }

  void GiveBack(double amount) {
    const double paid = std::min(debt_, amount);
    debt_ -= paid;
    high_ = std::max(high_ - paid, 0.0);
  }

  double debt_ = 0;
  double incurred_ = 0;  // of debts, paid or not, since the start
  double held_ = 0;
  double high_ = 0;  // the most that was held of late
  uint64_t last_ns_ = 0;
};

}  // namespace strata
