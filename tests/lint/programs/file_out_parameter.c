// Opened into a variable of the caller, who forgets it on one way out.
#include <fcntl.h>
#include <unistd.h>

static int open_it(const char* path, int* out) {
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return -1;
  *out = fd;
  return 0;
}

int f(const char* path, int least) {
  int fd;
  if (open_it(path, &fd) != 0) return -1;
  char first;
  if (read(fd, &first, 1) != 1 || first < least) return -2;
  close(fd);
  return first;
}
