// A hundred threads take and touch blocks without end, so that many wait at once.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 100, kBytes = 64 << 10 };

static void* Grow(void* unused) {
  (void)unused;
  for (;;) {
    char* block = malloc(kBytes);
    if (block == NULL) abort();
    memset(block, 1, kBytes);
  }
}

int main(void) {
  for (int i = 1; i < kThreads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, Grow, NULL) != 0) return 2;
  }
  Grow(NULL);
}
