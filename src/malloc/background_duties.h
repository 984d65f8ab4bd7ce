// What the background thread does as long as it lives, and what it has to know of itself for that.
// The socket and the files that it serves belong to src/control, which defines DoBackgroundDuties,
// so that no include points up. Sits in malloc.
#pragma once

#include <cstdint>

#include "os/confinement.h"

namespace strata {

// The background thread, as it sees itself. It goes on as long as it sees the program, and sees it
// unchanged: who may look through the thread at what the program has given up sees a process whose
// members agree. A raw system call, or a thread of the program's, may change that behind our back.
class BackgroundSelf {
 public:
  explicit BackgroundSelf(const ProcessStatus& was) : was_(was) {}

  static uint64_t NowNs();
  // Somebody waits for its end.
  static bool MustEnd();
  // False, once a round: it must end by itself.
  bool MayGoOn() const;
  // Until then, or until it must end.
  static void Sleep(uint64_t ns);
  // From now on its sleep also ends by a byte written to this end of a pipe, a descriptor of the
  // thread's own table; -1: no longer.
  static void WakeBy(int pipe);

 private:
  bool Unchanged(const ProcessStatus& now) const;

  const ProcessStatus was_;
};

// Until it must end, from outside or by itself.
void DoBackgroundDuties(const BackgroundSelf& self);

}  // namespace strata
