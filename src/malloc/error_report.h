// What is said of a memory error whose block is known: what happened, to which block, who did it,
// who allocated and who freed the block, and where to read on. Sits in malloc. For guarded blocks
// (guard.h) and checked ones (checked.h); bad frees of any other block are one line, from
// bad_free.h.
//
// Allocates nothing, takes no lock and is no cancellation point, for it is also called by a handler
// of SIGSEGV. Runs on a side stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heaps/block_history.h"

namespace strata {

struct WalkStart;

enum class MemoryErrorKind : uint8_t {
  kDoubleFree,
  kInvalidFree,
  kUseAfterFree,
  kOverflow,
  kUnderflow,
};

// How it was noticed.
enum class Noticed : uint8_t {
  kRead,
  kWrite,
  kFree,   // free or realloc was called with it
  kLater,  // the bytes were found changed when the block was freed, or later
};

struct MemoryError {
  MemoryErrorKind kind;
  Noticed noticed;
  uintptr_t at = 0;  // the address that was used, freed or found changed
  uintptr_t block = 0;
  size_t size = 0;
  const BlockEvent* allocated = nullptr;  // null: not known
  const BlockEvent* freed = nullptr;      // null: it is not freed
  const BlockEvent* done = nullptr;       // the access or the free itself; null: long ago
};

// Every error that was noticed is counted, said or not; how many there were.
void CountMemoryError();
size_t MemoryErrors();

// Ends the process by abort, unless errors are to be ignored: then the first is said.
void ReportMemoryError(const MemoryError& error);
// Only says it, once at the most where errors are to be ignored.
void SayMemoryError(const MemoryError& error);

// What the calling thread does now, as a block's history keeps it.
BlockEvent CurrentEvent(const WalkStart* from = nullptr);
// What it did when a fault at `pc` interrupted it: without the frames of the handler that calls.
BlockEvent EventAtFault(uintptr_t pc);
// Says a stack of the calling thread's: "freed by thread 7:" and its frames.
void SayStack(const char* what, const BlockEvent& event);

}  // namespace strata
