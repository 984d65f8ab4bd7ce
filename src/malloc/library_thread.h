// Starts a thread of the library's own: detached, small, deaf to signals. Sits in malloc.
#pragma once

namespace strata {

// Finds libc's own pthread_create, so that no tool's is called. From the library's constructor.
void PrepareLibraryThreads();

// False if there is no room for a thread now. When it returns true the thread has begun to run:
// until then libc has it on a list on which a child of a raw clone() would wait for it. Takes no
// lock of ours and leaves the caller's signal mask alone. Keeps errno.
bool StartLibraryThread(void (*run)());

// In the child of a fork: one that was about to begin has not come along.
void ForgetLibraryThreads();

}  // namespace strata
