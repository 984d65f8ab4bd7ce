// The call of a program's function that is asked at a cap, a reap's or a scope's. Sits in regions.
#pragma once

#include <cstddef>

#include "strata/layers/detail/cap.h"

struct strata_scope;

namespace strata {

// About the bytes that are held, or live.
struct CapCall : layers::CapQuestion {
  layers::CapFunction reached;
  void* context;

  // What the function says; 0: it refuses. The thread is in no scope meanwhile, and back in its own
  // also when the function throws; `asker`, the reap's scope, is dropped then. No lock may be held,
  // for the function is the program's.
  size_t Ask(strata_scope* asker = nullptr) const;
};

}  // namespace strata
