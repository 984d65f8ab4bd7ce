// Where dup2 fails the descriptor stays open.
#include <fcntl.h>
#include <unistd.h>

int f(const char* path) {
  const int fd = open(path, O_WRONLY);
  if (fd < 0) return -1;
  if (dup2(fd, 1) < 0) return -2;
  close(fd);
  return 0;
}
