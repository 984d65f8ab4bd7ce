// The input of strata-simulate, which `strata simulate` writes: items with their sizes, and in
// order when each begins and ends. A second file has the predicted class of each item, so that
// policies share the first. All numbers are little endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lifetime/bin_ladder.h"

namespace strata::simulate {

// One event: the time, and the item with the top bit set where it ends.
struct Event {
  uint64_t time;
  uint64_t what;

  static constexpr uint64_t kEnd = uint64_t{1} << 63;
  bool ends() const { return (what & kEnd) != 0; }
  uint64_t item() const { return what & ~kEnd; }
};

struct Events {
  std::vector<uint64_t> sizes;
  std::vector<Event> events;
  std::vector<BinClass> classes;
};

// What is wrong, or nothing.
std::string Read(const char* events, const char* classes, Events* read);

}  // namespace strata::simulate
