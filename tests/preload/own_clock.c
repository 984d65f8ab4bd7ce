// A clock that allocates in its first call, as libfaketime's does: a guest must not call it.
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  for (size_t size = 64; size < 4 << 20; size *= 2) {
    void* volatile block = malloc(size);
    free(block);
  }
  return (int)syscall(SYS_clock_gettime, clock, now);
}
