// When an object counts as cold, and what the kernel is advised of cold pages: a pure function from
// what the last window showed to a plan. After HADES: the promotion rate, the share of the used
// bytes that had been taken for cold, is held at a target by Ct, the windows without a use after
// which an object is. HADES says that Ct grows by a factor and falls by steps; the factor is ours,
// two. Without access bits of pages the rate counts guides: each object that was used once a
// window. Sits in hotness.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strata {

struct PromotionSnapshot {
  uint64_t used_bytes;       // of objects used in the last window
  uint64_t cold_used_bytes;  // of those among them that lay in the cold heap
  double target;
  uint32_t cold_after;  // Ct
  uint64_t windows;     // since the domain was made
};

struct PromotionPlan {
  double rate;
  uint32_t cold_after;
  bool page_out;  // else cold pages are only marked
};

class PromotionPolicy {
 public:
  static constexpr uint32_t kFirst = 3, kLeast = 1, kMost = 32;

  static constexpr PromotionPlan Decide(const PromotionSnapshot& s) {
    const double rate = s.used_bytes == 0 ? 0
                                          : static_cast<double>(s.cold_used_bytes) /
                                                static_cast<double>(s.used_bytes);
    PromotionPlan plan{rate, s.cold_after, rate <= s.target};
    if (s.windows <= kFirst) return plan;  // nothing can have been found cold before
    if (rate > s.target) {
      plan.cold_after = std::min(kMost, s.cold_after * 2);
    } else if (rate <= s.target / 2) {
      plan.cold_after = std::max(kLeast, s.cold_after - 1);
    }
    return plan;
  }
};

}  // namespace strata
