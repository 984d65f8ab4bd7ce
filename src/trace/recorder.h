// Records the calls of a process in the trace format: an event goes into the calling thread's
// buffer, and a full buffer to the file as one block. Made for use inside malloc: no allocation, no
// lock of the process's, errno kept, and a fork leaves the child a recording of its own. Sits in
// trace; preload.cpp feeds it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/trace/format.h"

namespace strata::trace {

// Reads STRATATRACE_FILE, _STACKS and _PARENT; without a file nothing is ever recorded. Once the
// environment is there, and before the first event; calls after the first do nothing.
void StartRecording();

// Each gets what a call that succeeded did, and is silent before the start and after the end, and
// within itself. errno is as before.
void RecordAllocation(Operation op, void* p, size_t size, size_t alignment = 0);
// Unless an allocation function below, which was called in between, has recorded the block itself.
void RecordAllocationOnce(Operation op, void* p, size_t size, size_t alignment = 0);
// Before the block goes back, so that no other thread can have its address yet.
void RecordFree(void* p);
// A function below is about to call free for this block, which was recorded: that call is not
// another. Null: no longer.
void ExpectFreeBelow(void* p);

// A realloc has two halves: the old block must be forgotten before the call, and is back if the
// call fails.
uint64_t BeginRealloc(void* p);
void EndRealloc(uint64_t object, void* old_block, void* p, size_t size);

// All that is buffered goes to the file, and the recording is over.
void FinishRecording();

}  // namespace strata::trace
