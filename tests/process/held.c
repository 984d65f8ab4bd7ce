// Takes the given MiB in blocks of 1000 bytes, frees all but every 64th, says so, and sleeps until
// it is killed: what it still holds then is the allocator's doing. With a second number, so many
// threads allocate at once before that.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t together;

static void* ChurnForAWhile(void* unused) {
  (void)unused;
  pthread_barrier_wait(&together);
  const time_t until = time(NULL) + 2;
  while (time(NULL) < until) {
    void* blocks[64];
    for (size_t i = 0; i < 64; ++i) memset(blocks[i] = malloc(1000), 1, 1000);
    for (size_t i = 0; i < 64; ++i) free(blocks[i]);
  }
  return NULL;
}

static void Churn(unsigned count) {
  pthread_t threads[64];
  pthread_barrier_init(&together, NULL, count);
  for (unsigned i = 0; i < count; ++i) pthread_create(&threads[i], NULL, ChurnForAWhile, NULL);
  for (unsigned i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  if (argc > 2) Churn((unsigned)atoi(argv[2]));
  const size_t count = (size_t)atoi(argc > 1 ? argv[1] : "1") * 1024;
  char** blocks = malloc(count * sizeof(*blocks));
  for (size_t i = 0; i < count; ++i) memset(blocks[i] = malloc(1000), 1, 1000);
  for (size_t i = 0; i < count; ++i) {
    if (i % 64 != 0) free(blocks[i]);
  }
  puts("held");
  fflush(stdout);
  for (;;) sleep(1);
}
