// A program of few system calls of its own, for test_system_calls.py. It marks the end of its start
// by alarm(0), which nobody else calls.
#define _GNU_SOURCE 1  // RTLD_DEFAULT
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

// Until a time has passed, by the clock of the vDSO.
static void Work(double seconds) {
  static char* small[40000];
  struct timespec begin;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  size_t size = 100;
  do {
    for (size_t i = 0; i < sizeof small / sizeof *small; ++i) {
      free(small[i]);
      small[i] = malloc(size);
      if (small[i] == NULL) _exit(1);
      small[i][0] = 1;
    }
    char* large = malloc(3000000);
    if (large == NULL) _exit(1);
    memset(large, 1, 3000000);
    free(large);
    size = size < 3000 ? size + 311 : 100;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 <
           seconds);
}

// A block that can't grow in place moves.
static void Grow(void) {
  size_t size = 40 << 20;
  char* block = malloc(size);
  for (int i = 0; i < 8 && block != NULL; ++i) {
    memset(block, 1, size);
    if (malloc(300 << 10) == NULL) _exit(1);
    size += size / 4;
    block = realloc(block, size);
  }
  if (block == NULL) _exit(1);
}

// The first scope of a program that has done nothing else. The library is preloaded, not linked.
static void Scope(void) {
  void* (*create)(void) = dlsym(RTLD_DEFAULT, "strata_scope_create");
  void* (*enter)(void*) = dlsym(RTLD_DEFAULT, "strata_scope_enter");
  if (create == NULL || enter == NULL || enter(create()) != NULL) _exit(1);
  for (int i = 0; i < 100; ++i) free(malloc(100));
  enter(NULL);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "start") == 0) {
    alarm(0);
    free(malloc(100));
  } else if (strcmp(argv[1], "work") == 0) {
    alarm(0);
    Work(3.5);
  } else if (strcmp(argv[1], "grow") == 0) {
    alarm(0);
    Grow();
  } else if (strcmp(argv[1], "scope") == 0) {
    alarm(0);
    Scope();
  } else {
    Work(1.5);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 3;
    alarm(0);
    Work(3.5);
  }
  return 0;
}
