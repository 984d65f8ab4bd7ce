// Which processors' heaps another one asks for a superblock before more memory is held than ever:
// a few of those that were used at all. The others' bins lie on pages that were never touched, and
// should stay so.
#pragma once

#include "strata/layers/detail/sync.h"

namespace strata::layers {

template <size_t kHeaps, class Sync>
class HoardLenders {
 public:
  static constexpr size_t kAsked = 4;

  // Heap `home` has superblocks, or is about to.
  void Note(size_t home) {
    if (!used_[home].load()) used_[home].store(true);
  }

  // What lend(heap) gives for the first that gives something, of at most kAsked behind `home`.
  template <class Lend>
  auto Ask(size_t home, size_t heaps, Lend lend) const -> decltype(lend(home)) {
    size_t asked = 0;
    for (size_t i = 1; i < heaps && asked < kAsked; ++i) {
      const size_t at = (home + i) % heaps;
      if (!used_[at].load()) continue;
      ++asked;
      if (auto* lent = lend(at)) return lent;
    }
    return nullptr;
  }

 private:
  typename Sync::template Atomic<bool> used_[kHeaps] = {};
};

}  // namespace strata::layers
