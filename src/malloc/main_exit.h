// The end of a process whose main thread has called pthread_exit. Such a process ends with its last
// thread, in which glibc calls exit(0); our background thread must not be counted as one. So when
// the main thread leaves, a watcher starts that calls exit(0) once only the library's own threads
// are left. It shares the program's descriptors, which the background thread does not: exit flushes
// the program's open files. Sits in malloc.
#pragma once

namespace strata {

// From the constructor, and in the child of a fork: the calling thread is the main thread.
void WatchMainThread();

// The background thread was started: it is the watcher's business only once the main thread is
// gone.
void StartMainExitWatcherIfNeeded();

}  // namespace strata
