// A count at the descriptor's number keeps nothing of it.
#include <fcntl.h>
#include <unistd.h>

static int opened[1024];

int read_one(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return -1;
  opened[fd]++;
  char c;
  if (read(fd, &c, 1) != 1) return -1;
  close(fd);
  return c;
}
