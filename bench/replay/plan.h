// What a trace comes to for the replayer: an array of steps in the order of the calls, where
// objects are slots of a table.
#pragma once

#include "memory.h"
#include "strata/trace/format.h"

namespace strata::replay {

inline constexpr uint32_t kNoSlot = UINT32_MAX;

// One call to make. Packed, because a step is read for each call that is timed.
struct Step {
  static constexpr unsigned kSizeBits = 50;
  static constexpr uint8_t kNothing = 0xf;  // a call that is not in the file, or can't be made

  uint64_t size : kSizeBits = 0;
  uint64_t operation : 4 = kNothing;
  uint64_t alignment_log2 : 6 = 0;
  uint32_t slot = kNoSlot;  // that gets the block
  uint32_t from = kNoSlot;  // whose block ends
};
static_assert(sizeof(Step) == 16);

// How slots are given to objects.
enum class Slots {
  kReused,  // as few as can be: the table stays in the caches
  kUnique,  // one an object: no thread can meet another's older use of it
};

struct Plan {
  Array<Step> steps;
  Array<uint32_t> threads;  // of each step, from 1
  size_t count = 0;         // of steps, kNothing among them
  size_t events = 0;        // in the file
  size_t ignored = 0;       // frees of what the file has no allocation of
  size_t slots = 0;
  uint64_t peak_live = 0;  // bytes, in the recorded order
  uint32_t most_thread = 0;
};

// Ends the program with one message if the file is not a trace. Of a damaged one it says so, and
// takes what is good.
void Load(const char* path, Slots slots, Plan* plan);

}  // namespace strata::replay
