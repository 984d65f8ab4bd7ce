// Allocates from some threads and says which caches they had; nothing more.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* strata_cache_mode(void) __attribute__((weak));

static void* Work(void* number) {
  unsigned char* blocks[500];
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < 500; ++i) {
      blocks[i] = malloc(i * 5 + 1);
      if (blocks[i] == NULL) abort();
      memset(blocks[i], (int)(size_t)number, i * 5 + 1);
    }
    for (size_t i = 0; i < 500; ++i) {
      if (blocks[i][0] != (unsigned char)(size_t)number || blocks[i][i * 5] != blocks[i][0])
        abort();
      free(blocks[i]);
    }
  }
  return NULL;
}

int main(void) {
  pthread_t threads[6];
  for (size_t i = 0; i < 6; ++i) {
    if (pthread_create(&threads[i], NULL, Work, (void*)(i + 1)) != 0) abort();
  }
  for (size_t i = 0; i < 6; ++i) pthread_join(threads[i], NULL);
  puts(strata_cache_mode != NULL ? strata_cache_mode() : "none");
  return 0;
}
