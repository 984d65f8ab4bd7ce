// Puts errno back at the end of a scope: a call that succeeds, and free in any case, must leave the
// program's errno alone. Sits in base.
#pragma once

#include <errno.h>

namespace strata {

class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

}  // namespace strata
