// Right: a lock that is made so.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
int f(int n) {
  pthread_mutex_lock(&m);
  pthread_mutex_lock(&m);
  n++;
  pthread_mutex_unlock(&m);
  pthread_mutex_unlock(&m);
  return n;
}
