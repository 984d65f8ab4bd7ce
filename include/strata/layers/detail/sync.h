// What a layer for many threads takes of the machine: a lock and an atomic. Layers that are tested
// by running every interleaving of a few threads (tests/layers/interleave.h) take this as a
// parameter, and the test puts a scheduler's own lock and atomic in its place.
#pragma once

#include <atomic>

#include "strata/layers/thread/locked.h"

namespace strata::layers {

struct SystemSync {
  using Lock = FutexLock;
  template <class T>
  using Atomic = std::atomic<T>;
};

// A lock held to the end of the scope.
template <class L>
class Holding {
 public:
  explicit Holding(L& lock) : lock_(lock) { lock_.lock(); }
  ~Holding() { lock_.unlock(); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

 private:
  L& lock_;
};

}  // namespace strata::layers
