// Threads of the library's own. See library_thread.h.
#include "malloc/library_thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstddef>

#include "base/errno_keeper.h"

namespace strata {

bool StartLibraryThread(const char* name, void* (*run)(void*)) {
  constexpr size_t kStackBytes = 256 << 10;
  const ErrnoKeeper keep;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, kStackBytes);
  // The program's signals are for its own threads.
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, &attr, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attr);
  if (made) pthread_setname_np(thread, name);
  return made;
}

}  // namespace strata
