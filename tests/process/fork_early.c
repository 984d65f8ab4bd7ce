// Forks beside threads that allocate, in a program linked with early_handlers.c.
#include "../edge/case.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

extern int early_handler_runs;
static atomic_int stop;

static void* Busy(void* unused) {
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    char* blocks[50];
    for (int i = 0; i < 50; ++i) blocks[i] = (char*)malloc((size_t)(i + 1) * 700);
    for (int i = 0; i < 50; ++i) free(blocks[i]);
  }
  return unused;
}

CASE(early_handlers_allocate) {
  pthread_t ids[2];
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&ids[i], NULL, Busy, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    int runs = early_handler_runs;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(30);
      CHECK(early_handler_runs == runs + 2);
      void* block = malloc(5000);
      CHECK(block != NULL);
      free(block);
      pthread_t id;
      atomic_store(&stop, 1);
      CHECK(pthread_create(&id, NULL, Busy, NULL) == 0);
      CHECK(pthread_join(id, NULL) == 0);
      _exit(0);
    }
    CHECK(early_handler_runs == runs + 2);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 0, status);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}
