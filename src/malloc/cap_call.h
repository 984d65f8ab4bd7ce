// The call of a program's function that is asked at a cap, a reap's or a scope's. Sits in malloc.
#pragma once

#include <cstddef>

struct strata_scope;

namespace strata {

struct CapQuestion {
  size_t (*reached)(void* context, size_t now, size_t wanted, size_t cap);
  void* context;
  size_t now;  // bytes held, or live
  size_t wanted;
  size_t cap;

  bool IsMoot() const { return cap == 0 || now + wanted <= cap; }
  // What the function says; 0: it refuses. The thread is in no scope meanwhile, and back in its own
  // also when the function throws; `held` is dropped then. No lock may be held, for the function is
  // the program's.
  size_t Ask(strata_scope* held = nullptr) const;
};

}  // namespace strata
