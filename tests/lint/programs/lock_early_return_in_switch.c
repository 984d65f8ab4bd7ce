// Wrong on purpose: early return in switch.
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int t[10];
static int get(int k) {
  int r;
  pthread_mutex_lock(&m);
  switch (k) {
    case 0:
      r = t[0];
      break;
    case 1:
      if (!t[1]) return -ENOENT;
      r = t[1];
      break;
    default:
      r = -1;
  }
  pthread_mutex_unlock(&m);
  return r;
}
int main(int a, char** v) { return get(a); }
