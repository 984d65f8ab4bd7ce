// Jobs on machines: each takes some cores of one machine, any will do, and is not moved. A machine
// is on while it has a job. Part of strata-simulate.
#pragma once

#include <cstdint>
#include <vector>

#include "lifetime/bin_packer.h"

namespace strata::simulate {

inline constexpr uint32_t kCores = 64;

template <class Packer>
class Machines {
 public:
  Machines(Packer& packer, const BinLadder& /*ladder*/, size_t items)
      : packer_(packer), placed_(items) {}

  bool Place(uint64_t item, uint64_t now, uint64_t size, BinClass lifetime) {
    placed_[item] = packer_.Place(now, static_cast<uint32_t>(size), lifetime, FillOrder::kNearest);
    return placed_[item].placed();
  }
  void Remove(uint64_t item, uint64_t now, uint64_t /*size*/) {
    packer_.Remove(now, placed_[item]);
  }
  uint64_t held() const { return packer_.in_use(); }
  uint64_t reclaimed() const { return packer_.stats().reclaimed; }

 private:
  Packer& packer_;
  std::vector<PlacedItem> placed_;
};

}  // namespace strata::simulate
