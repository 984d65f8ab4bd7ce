// A wait that may be in vain: for what another thread is about to do, unless it waits for this one.
// Sits in base.
#pragma once

#include "base/arch.h"

namespace strata {

// By the call that a sandbox lets any malloc make. A signal handler does not end it.
void Nap(long ns);

// True as soon as f() is; false where it was not for a moment, a tenth of a second.
template <class F>
bool WithinAMoment(F f) {
  constexpr int kSpins = 100, kNaps = 1000;
  constexpr long kNapNs = 100'000;
  for (int i = 0; i < kSpins + kNaps; ++i) {
    if (f()) return true;
    i < kSpins ? arch::Relax() : Nap(kNapNs);
  }
  return false;
}

}  // namespace strata
