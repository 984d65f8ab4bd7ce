// A pthread_create of the program's own that makes a reap: the library's threads start through it
// too, whenever a miss finds it time.
#include <dlfcn.h>
#include <pthread.h>

#include "case.h"
#include "strata/reap.h"

static int made;
static strata_reap* shared;

int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*), void* arg) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  strata_reap_destroy(strata_reap_create(NULL));
  if (shared != NULL) strata_reap_free(shared, strata_reap_malloc(shared, 100));
  ++made;
  return real(thread, attr, run, arg);
}

CASE(making_reaps_starts_the_background_thread) {
  alarm(20);
  for (int i = 0; i < 100000 && made == 0; ++i) CHECK(strata_reap_create(NULL) != NULL);
  CHECK(made != 0);
}

// A shared reap takes its chunks under its lock.
CASE(filling_a_shared_reap_starts_the_background_thread) {
  alarm(20);
  shared = strata_reap_create_shared(NULL);
  for (int i = 0; i < 100000 && made == 0; ++i) CHECK(strata_reap_malloc(shared, 1000) != NULL);
  CHECK(made != 0);
  strata_reap_destroy(shared);
}
