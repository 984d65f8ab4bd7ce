// Right: a lock of the caller's that is given back for a while.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t m;
int n;
void f(int k) {
  pthread_mutex_unlock(&m);
  usleep(k);
  pthread_mutex_lock(&m);
  if (k > 3) {
    n++;
    return;
  }
  pthread_mutex_unlock(&m);
  usleep(k);
  pthread_mutex_lock(&m);
}
