// Given back twice only if the thread is cancelled before it has the lock again.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static int count;

static int next(void) {
  int n;
  pthread_cleanup_push((void (*)(void*))pthread_mutex_unlock, &all);
  pthread_mutex_lock(&all);
  n = ++count;
  pthread_cleanup_pop(1);
  return n;
}

int main(int argc, char** argv) {
  pthread_mutex_lock(&all);
  count = argc;
  pthread_mutex_unlock(&all);
  return next();
}
