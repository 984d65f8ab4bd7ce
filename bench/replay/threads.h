// A replay with as many threads as the recorded program had. Each makes its own calls in their
// order; a free of another thread's block waits for the block; and no thread runs ahead of the
// slowest by more than a window of calls, so that what is live at a time is about what was.
// The thread whose next call is the earliest of all never waits, so all come to their end.
#pragma once

#include "calls.h"

namespace strata::replay {

// `sample` is called by whichever thread gets to a sample's step, one at a time.
struct ThreadedReplay {
  Plan* plan;
  Array<Slot>* slots;
  Touch touch;
  size_t window;
  size_t stride;  // a sample every so many steps; 0: none
  void (*sample)(void* context, size_t step, int64_t live);
  void* context;

  // The sums over all threads.
  Progress Run();
};

}  // namespace strata::replay
