// A program that runs with more rights than its caller, and starts another with them: `outer` as
// itself the second time, `inner`. It must be linked, for the dynamic linker preloads nothing here.
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  free(malloc(100000));
  if (strcmp(argv[1], "outer") == 0) {
    if (getauxval(AT_SECURE) == 0) return 77;  // a file system that knows no setuid
    int ours = 0;
    for (char** at = environ; *at != NULL; ++at) ours += strncmp(*at, "STRATA", 6) == 0;
    printf("outer %d %s\n", ours, getenv("OTHER"));
    fflush(stdout);
    if (setgid(getegid()) != 0 || setuid(geteuid()) != 0) return 3;
    execl("/proc/self/exe", argv[0], "inner", (char*)NULL);
    return 4;
  }
  printf("inner %lu\n", getauxval(AT_SECURE));
  return 0;
}
