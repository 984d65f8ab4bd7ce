// The end of a process that its main thread has left by pthread_exit. Such a process ends with its
// last thread, in which glibc calls exit(0), and ours must not be counted as one: so when the main
// thread leaves, the background thread ends and does not come back. Sits in malloc.
#pragma once

namespace strata {

// From the constructor, and in the child of a fork: the calling thread is the main thread.
void WatchMainThread();

// The calling thread ends; it may be the main thread, in pthread_exit.
void NoteThreadLeaves();

bool MainThreadLeft();
// It ended in a way that could not be watched, such as the bare system call.
void NoteMainThreadLeft();

}  // namespace strata
