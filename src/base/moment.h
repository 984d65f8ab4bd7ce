// Waits for what another thread is about to do: it may need this CPU for that, or wait for this
// thread itself. Sits in base.
#pragma once

#include "base/arch.h"

namespace strata {

// By the call that a sandbox lets any malloc make. A signal handler does not end it.
void Nap(long ns);

// The n-th wait for it. Not for ever by a spin: it may have a lower priority.
inline void WaitBriefly(unsigned n) { n < 100 ? arch::Relax() : Nap(50'000); }

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
