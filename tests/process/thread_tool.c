// A tool that watches threads, preloaded behind the library: its pthread_create comes before libc's
// in the order in which names are found.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* arg) {
  fputs("the tool saw a thread\n", stderr);
  int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT,
                                                                                 "pthread_create");
  return next(thread, attributes, run, arg);
}
