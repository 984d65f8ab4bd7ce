// What a process owes for its forks while process ids are scarce. Each child inherits the account,
// so that a chain of children pays as one process would. Sits in price; guarded by its owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "price/price_law.h"

namespace strata {

class ForkAccount {
 public:
  // One fork more. Returns how long it waits first. What is for sale is shared by all processes
  // that there are, for each of them may be forking.
  uint64_t Charge(const Supply& s, uint32_t weight, uint64_t now_ns) {
    const double seconds = now_ns > last_ns_ ? static_cast<double>(now_ns - last_ns_) * 1e-9 : 0;
    const bool first = last_ns_ == 0;
    last_ns_ = std::max(now_ns, last_ns_);
    if (!IsScarce(s, kProcessTerms)) {
      debt_ = 0;
      return 0;
    }
    const double income = Income(s, {0, weight}, kProcessTerms) / std::max(s.used, 1.0);
    if (!first) debt_ = std::max(debt_ - income * seconds, 0.0);
    debt_ += 1;
    const double due = debt_ - SavingsOf(s, kProcessTerms);
    if (due <= 0) return 0;
    const double ns = std::min(due / income * 1e9, static_cast<double>(kProcessTerms.longest_ns));
    return static_cast<uint64_t>(ns);
  }

  double debt() const { return debt_; }

 private:
  double debt_ = 0;
  uint64_t last_ns_ = 0;
};

}  // namespace strata
