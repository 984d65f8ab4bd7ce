// Locks all memory with the usual limit, as a user without rights, and allocates until there is no
// more. Prints the bytes got in small blocks and in large ones, and then of both until the end.
// Arguments: the flags for mlockall; 1 to call malloc before it.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static size_t take(size_t size, size_t most) {
  size_t got = 0;
  while (got < most) {
    errno = 0;
    char* p = malloc(size);
    if (p == NULL) {
      if (errno != ENOMEM) _exit(5);
      break;
    }
    memset(p, 1, size);
    got += size;
  }
  return got;
}

int main(int argc, char** argv) {
  const struct rlimit limit = {8 << 20, 8 << 20};
  if (argc != 3) return 1;
  if (atoi(argv[2]) != 0) free(malloc(100));
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 2;
  if (setgroups(0, NULL) != 0 || setresgid(65534, 65534, 65534) != 0 ||
      setresuid(65534, 65534, 65534) != 0) {
    return 3;
  }
  if (mlockall(atoi(argv[1])) != 0) return 4;
  const size_t small = take(100, 1 << 20), large = take(200000, 1 << 20);
  const size_t rest = take(200000, 512 << 20) + take(1000, 512 << 20);
  dprintf(1, "%zu %zu %zu\n", small, large, rest);
  return 0;
}
