// A thread's key for what lives in another's program: a layer, a preloaded heap, the recorder.
#pragma once

#include <pthread.h>

namespace strata::layers {

// Key 0 stays the program's: one that asks for a key before it made it, still 0, expects null and
// EINVAL, and would otherwise take our value for its own, or overwrite or delete it. False: there
// is no key left.
inline bool MakeThreadKey(pthread_key_t* key, void (*end)(void*)) {
  if (pthread_key_create(key, end) != 0) return false;
  if (*key != 0) return true;
  const bool made = pthread_key_create(key, end) == 0;
  pthread_key_delete(0);
  return made;
}

}  // namespace strata::layers
