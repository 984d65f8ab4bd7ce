// The background thread itself: what it is as a guest in the program's process, how it sleeps, is
// woken and ends. background.h decides when there is one and what it does. Sits in malloc.
#pragma once

namespace strata {

// Asks for a thread; true if one runs now. It has begun when this returns.
bool StartBackgroundThread();

// True while there is one, or one is on its way.
bool BackgroundThreadRuns();

// How long its end is waited for: two seconds, or a minute, for a call that must not be made beside
// it. A signal handler that interrupted the heap waits no longer than two seconds.
enum class Patience : bool { kShort, kLong };

// Ends it, and the second thread, and keeps them from starting again. When the constructor is
// through the kernel knows no such thread any more, so that the process is what it would be without
// the library; unless gone() is false. Any thread, a signal handler too; keeps errno.
class BackgroundThreadAway {
 public:
  explicit BackgroundThreadAway(Patience patience = Patience::kShort);
  ~BackgroundThreadAway();
  BackgroundThreadAway(const BackgroundThreadAway&) = delete;
  BackgroundThreadAway& operator=(const BackgroundThreadAway&) = delete;

  bool gone() const { return gone_; }

 private:
  bool gone_ = true;
};

// Whether somebody wants it away now.
bool BackgroundThreadIsAway();

// In the child of a fork: it has not come along.
void ForgetBackgroundThread();

// Another thread of the library's, for who asks for it: that of moving objects. Under the same
// rules, but for its descriptors: what destroys the program's objects runs there.
class SecondThread {
 public:
  // True if it runs now. `run` begins with Begin(), comes back soon after MustEnd() is true and
  // `wake` was called, and ends with Ended().
  static bool Start(void (*run)(), void (*wake)());
  static bool Runs();
  static void Begin();
  static bool MustEnd();
  static void Ended();
  // In the child of a fork: of the thread itself, which goes on there, or of another.
  static void GoOnInChild();
  static void ForgetInChild();
};

}  // namespace strata
