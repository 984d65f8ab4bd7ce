// Who writes asks, and asking locks as well.
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int total;

static int read_total(void) {
  pthread_rwlock_rdlock(&lock);
  const int t = total;
  pthread_rwlock_unlock(&lock);
  return t;
}

void f(int more) {
  pthread_rwlock_wrlock(&lock);
  total = read_total() + more;
  pthread_rwlock_unlock(&lock);
}
