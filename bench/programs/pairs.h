// Pairs of malloc and free, one right after the other, on some threads for some time: the timed
// part of tight and predicted.
#pragma once

#include "common.h"

namespace bench {

struct PairsPlan {
  size_t size;
  unsigned threads;
  double seconds;
};

// Other options have been read; there are no more.
inline PairsPlan PairsOptions(Options& options) {
  const PairsPlan plan{options.Count("size", 64),
                       static_cast<unsigned>(options.Count("threads", 1)),
                       options.Scaled("seconds", 1.0)};
  options.RejectUnknown();
  if (plan.size == 0) Die("--size must be above zero");
  return plan;
}

template <class Make, class Drop>
Total RunPairs(const PairsPlan& plan, Make make, Drop drop) {
  constexpr uint64_t kChunk = 4096;  // pairs between two looks at the clock
  return RunThreads(plan.threads, [&](unsigned) {
    return RunFor(plan.seconds, [&] {
      for (uint64_t i = 0; i < kChunk; ++i) {
        auto* p = static_cast<char*>(make(plan.size));
        *p = 1;
        Escape(p);
        drop(p, plan.size);
      }
      return kChunk;
    });
  });
}

}  // namespace bench
