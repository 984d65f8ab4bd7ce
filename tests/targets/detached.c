// Detached threads come and go: musl unmaps the thread-local storage of each from within, with the
// area that was registered for rseq in it.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { kThreads = 5000 };
static atomic_int ended;

static void* Work(void* unused) {
  for (size_t i = 0; i < 200; ++i) {
    char* volatile p = malloc(i + 1);
    if (p == NULL) abort();
    p[i] = 1;
    free(p);
  }
  ++ended;
  return unused;
}

int main(void) {
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    while (pthread_create(&thread, &how, Work, NULL) != 0) usleep(100);
  }
  while (ended != kThreads) usleep(1000);
  return 0;
}
