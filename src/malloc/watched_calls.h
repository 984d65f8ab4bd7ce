// The libc functions by which a program gives up what it may do: privileges, namespaces, system
// calls. The shared library stands before them (watched_calls.cpp), so that the background thread
// is gone before the program does any of it: a thread of which the program knows nothing must not
// keep what the program gives up, stand in the way of a call that only a process of one thread may
// make, or run into a filter. Not chroot: browsers call it in a child that shares their memory but
// has no thread-local storage, and the thread changes its root with the others. Sits in malloc.
#pragma once

namespace strata {

// From the library's constructor.
void FindWhetherCallsPass();

// Whether the calls pass through here: in the shared library, unless libc comes before it, as in a
// program that loads it by dlopen; not in the archive. False until the above has looked.
bool SeesWhatTheProgramGivesUp();

// Looks up libc's functions, before the background thread starts.
void PrepareWatchedCalls();

}  // namespace strata
