// Who asks to keep the lock does not give it back.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static int table[4] = {3, 1, 4, 1};

static int find(int n, int keep_lock) {
  pthread_mutex_lock(&all);
  int found = table[n & 3];
  if (!keep_lock) pthread_mutex_unlock(&all);
  return found;
}

int main(int argc, char** argv) {
  if (find(argc, 0) > 2) puts(argv[0]);
  return find(argc + 1, 1);
}
