// Whether the memory that this code runs in is that of the process it knows: fork handlers do not
// run for a raw clone(), and a vfork child runs in its parent's memory. Sits in malloc.
#pragma once

#include <sys/types.h>

namespace strata {

// The calling process is the one; at the start, and in the child of a fork. Makes no system call
// that the loader does not make.
void ClaimProcess();
// libc still takes this process for its parent, so its number is not known: after a raw clone().
void ForgetProcessNumber();

// Not asked for where a filter of the program's own may forbid that: then what is known, or 0.
pid_t ProcessNumber();

// In a copy of the process that no fork handler has run in. Makes no system call.
bool ForkedUnseen();
// True for one of its threads, once: that one renews what the process has of the library.
bool ClaimUnseenChild();

// In a child that has the parent's memory, for a while.
bool BorrowsMemory();

}  // namespace strata
