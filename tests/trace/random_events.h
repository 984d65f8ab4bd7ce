// Random traces that make sense: what the tests write, read and damage.
#pragma once

#include <random>
#include <vector>

#include "strata/trace/format.h"

namespace strata::trace {

// Events of several threads with every operation, gaps in the sequence, and numbers of all widths.
inline std::vector<Event> RandomEvents(uint64_t seed, size_t count, uint32_t threads) {
  std::mt19937_64 random(seed);
  std::vector<Event> events;
  std::vector<uint64_t> live;
  uint64_t sequence = 0, time = 0;
  const auto wide = [&] { return random() >> (random() % 64); };
  const auto take = [&]() -> uint64_t {
    if (live.empty() || random() % 50 == 0) return 0;  // one that the recording did not see
    std::swap(live[random() % live.size()], live.back());
    const uint64_t object = live.back();
    live.pop_back();
    return object;
  };
  for (size_t i = 0; i < count; ++i) {
    Event event;
    event.sequence = sequence += 1 + (random() % 20 == 0 ? random() % 300 : 0);
    event.time = time += random() % 30 == 0 ? wide() >> 20 : random() % 500;
    event.operation = static_cast<Operation>(random() % kOperations);
    event.thread = static_cast<uint32_t>(random() % threads + 1);
    if (NamesObject(event.operation)) event.object = take();
    if (Allocates(event.operation)) {
      event.size = random() % 10 == 0 ? wide() : random() % 2000;
      event.stack = static_cast<uint32_t>(random() % 3 == 0 ? 0 : random() % 1000);
      live.push_back(event.sequence);
    }
    if (event.operation == Operation::kAligned)
      event.alignment_log2 = static_cast<uint8_t>(random() % 22);
    events.push_back(event);
  }
  return events;
}

// Some for them: of a third of the objects it is not known that they ended.
inline std::vector<Lifetime> RandomLifetimes(uint64_t seed, size_t count) {
  std::mt19937_64 random(~seed);
  std::vector<Lifetime> lifetimes(count);
  for (Lifetime& l : lifetimes) {
    if (random() % 3 == 0) continue;
    l = {true, random() >> (1 + random() % 63), random() >> (1 + random() % 63)};
  }
  return lifetimes;
}

}  // namespace strata::trace
