// What a fork costs while process ids are scarce. Each child inherits the account, so that a chain
// of children pays as one process would. Sits in price; guarded by its owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "price/price_law.h"

namespace strata {

class ForkAccount {
 public:
  // A fork is to come; OwedNs says how long it waits still. Free is who has not forked, nor been
  // forked, for a minute: in a fork bomb that is nobody. The others owe `drawn`, from the
  // exponential distribution with the mean 1: hundreds of equal children that owed the same would
  // all be through at the same moment.
  void Begin(uint64_t now_ns, double drawn) {
    owed_ = now_ns > last_ns_ + kRestNs ? 0 : drawn;
    last_ns_ = now_ns;
  }

  // What is for sale is shared by all processes that there are, for each of them may be waiting to
  // fork; so the rest of the wait grows while others go first.
  uint64_t OwedNs(const Supply& s, uint32_t weight, uint64_t now_ns) {
    const double seconds = now_ns > last_ns_ ? static_cast<double>(now_ns - last_ns_) * 1e-9 : 0;
    last_ns_ = now_ns;
    if (!IsScarce(s, kProcessTerms)) owed_ = 0;
    if (owed_ <= 0) return 0;
    const double income = Income(s, {0, weight}, kProcessTerms) / std::max(s.used, 1.0);
    owed_ -= income * seconds;
    if (owed_ <= 0) return 0;
    const double ns = std::min(owed_ / income * 1e9, static_cast<double>(kProcessTerms.longest_ns));
    return std::max(static_cast<uint64_t>(ns), uint64_t{1});
  }

 private:
  static constexpr uint64_t kRestNs = 60'000'000'000;
  double owed_ = 0;       // of the fork to come
  uint64_t last_ns_ = 0;  // at the last look, which is when the last fork happened, or later
};

}  // namespace strata
