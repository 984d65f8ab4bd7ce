// ElidedLock: a lock that a process with one thread need not take: glibc says so in a variable. A
// preloaded heap with one lock then costs a program without threads two loads a call instead of two
// atomic exchanges. For Locked: LockedBy<ElidedLock<>>.
#pragma once

#include <sys/single_threaded.h>

#include "strata/layers/locked.h"

namespace strata::layers {

template <class LockType = FutexLock>
class ElidedLock {
 public:
  void lock() {
    if (!__libc_single_threaded) real_.lock();
  }
  // The lock itself says whether it was taken: while it was not, there was no second thread that
  // could have, because a thread does not start others in here. The variable may have changed since
  // for a fork's child, which lets go of what its parent took.
  void unlock() {
    if (real_.is_held()) real_.unlock();
  }

 private:
  LockType real_;
};

}  // namespace strata::layers
