// Right: a thread that is begun under a lock.
#include <pthread.h>

static pthread_mutex_t m;
static int n;
static void* work(void* p) {
  pthread_mutex_lock(&m);
  n++;
  pthread_mutex_unlock(&m);
  return p;
}
int f(void) {
  pthread_t t;
  pthread_mutex_lock(&m);
  int r = pthread_create(&t, 0, work, 0);
  pthread_mutex_unlock(&m);
  return r;
}
