// Starts a program many times and prints the median wall time in microseconds and the peak RSS in
// KiB of the program itself. Linked statically: the peak that the kernel reports for a child starts
// with that of the process it was forked from, so this one must be small. Usage: launch COUNT
// PRELOAD|- program [arguments]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ByValue(const void* left, const void* right) {
  long a = *(const long*)left;
  long b = *(const long*)right;
  return a < b ? -1 : a > b;
}

int main(int argc, char** argv) {
  enum { kMost = 1000 };
  static long micros[kMost];
  static long kib[kMost];
  if (argc < 4) return 2;
  int count = atoi(argv[1]);
  if (count < 1 || count > kMost) return 2;
  for (int i = 0; i < count; ++i) {
    struct timespec begin;
    struct timespec end;
    struct rusage usage;
    int status = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pid_t child = fork();
    if (child == 0) {
      if (strcmp(argv[2], "-") != 0) setenv("LD_PRELOAD", argv[2], 1);
      execv(argv[3], argv + 3);
      _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) return 3;
    clock_gettime(CLOCK_MONOTONIC, &end);
    micros[i] = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
    kib[i] = usage.ru_maxrss;
  }
  qsort(micros, (size_t)count, sizeof *micros, ByValue);
  qsort(kib, (size_t)count, sizeof *kib, ByValue);
  printf("%ld %ld\n", micros[count / 2], kib[count / 2]);
  return 0;
}
