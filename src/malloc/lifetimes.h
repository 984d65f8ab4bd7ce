// Learns which places allocate what lasts, from the samples of this process, and puts it to use.
// Sits in malloc; the background thread calls it. What is decided is in lifetime/site_learner.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

struct LifetimeStats {
  size_t predictions = 0;  // entries of the table now
  uint64_t changes = 0;    // of entries, so far
  uint64_t rounds = 0;     // in which the samples were looked at
};

// One look at the samples, if there are new ones or the last was a while ago. One caller at a time;
// may take milliseconds. Returns when to come again.
uint64_t LearnLifetimes(uint64_t now_ns);

LifetimeStats StatsOfLifetimes();

}  // namespace strata
