// Right: a number that is taken again.
#include <fcntl.h>
#include <unistd.h>

int f(const char* n, int fd) {
  int d = open(n, 0);
  if (d < 0) return 1;
  close(d);
  if (dup2(fd, d) != d) return 1;
  close(d);
  return 0;
}
