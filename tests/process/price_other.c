// Takes most of what its cgroup allows by mmap, which pays nothing, and then grows by malloc until
// its time is up: what malloc gives pays for the room that mmap left. Usage: price_other MIB
// SECONDS
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void* EndAfter(void* seconds) {
  sleep(*(unsigned*)seconds);
  exit(0);  // so that the statistics are written
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t size = (size_t)atol(argv[1]) << 20;
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  char* own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED) return 3;
  memset(own, 1, size);
  clock_gettime(CLOCK_MONOTONIC, &ended);
  if (ended.tv_sec - began.tv_sec > 30) return 4;  // it waited
  unsigned seconds = (unsigned)atol(argv[2]);
  pthread_t ends;
  if (pthread_create(&ends, NULL, EndAfter, &seconds) != 0) return 6;
  for (;;) {
    char* block = malloc(64 << 10);
    if (block == NULL) return 5;
    memset(block, 1, 64 << 10);
  }
}
