// All numbers are closed only by the program that comes after this one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

static int leave(const char* log, int n) {
  const int fd = open(log, O_WRONLY);
  if (fd < 0 || write(fd, log, 1) != n) return -1;
  return close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

int main(int argc, char** argv) { return leave(argv[argc - 1], argc); }
