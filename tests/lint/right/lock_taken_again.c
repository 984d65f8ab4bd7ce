// Right: a lock that may be taken again.
#include <pthread.h>

static pthread_mutex_t m;
static int n;
void init(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&m, &a);
}
static int get(void) {
  pthread_mutex_lock(&m);
  int r = n;
  pthread_mutex_unlock(&m);
  return r;
}
int f(void) {
  pthread_mutex_lock(&m);
  n = get() + 1;
  pthread_mutex_unlock(&m);
  return 0;
}
