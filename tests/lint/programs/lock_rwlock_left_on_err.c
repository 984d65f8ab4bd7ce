// Wrong on purpose: rwlock left on err.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static char* val;
static int setv(const char* s) {
  pthread_rwlock_wrlock(&l);
  char* n = strdup(s);
  if (!n) return -1;
  free(val);
  val = n;
  pthread_rwlock_unlock(&l);
  return 0;
}
int main(int a, char** v) { return setv(v[0]); }
