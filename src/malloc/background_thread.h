// The background thread itself: what it is as a guest in the program's process, how it sleeps, is
// woken and ends. background.h decides when there is one and what it does. Sits in malloc.
#pragma once

namespace strata {

// Asks for a thread; true if one runs now. It has begun when this returns.
bool StartBackgroundThread();

// True while there is one, or one is on its way.
bool BackgroundThreadRuns();

// Ends it and keeps it from starting again. When the constructor is through the kernel knows no
// such thread any more, so that the process is what it would be without the library; unless the
// thread could not be ended in two seconds. Any thread, a signal handler too; keeps errno.
class BackgroundThreadAway {
 public:
  BackgroundThreadAway();
  ~BackgroundThreadAway();
  BackgroundThreadAway(const BackgroundThreadAway&) = delete;
  BackgroundThreadAway& operator=(const BackgroundThreadAway&) = delete;
};

// Whether somebody wants it away now.
bool BackgroundThreadIsAway();

// In the child of a fork: it has not come along.
void ForgetBackgroundThread();

}  // namespace strata
