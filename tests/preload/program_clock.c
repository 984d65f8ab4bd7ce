// A program with a clock of its own, which nobody else may call: it ends with status 1 if the
// library did, where it measures, gives memory back and looks for what waits.
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int g_calls;

int clock_gettime(clockid_t clock, struct timespec* now) {
  ++g_calls;
  return (int)syscall(SYS_clock_gettime, clock, now);
}

int main(void) {
  for (int round = 0; round < 20; ++round) {
    for (size_t size = 64; size < 16 << 20; size *= 2) {
      void* volatile block = malloc(size);
      memset(block, 1, size);
      free(block);
    }
    usleep(20000);
  }
  return g_calls != 0;
}
