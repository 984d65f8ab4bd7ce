// A name that lies at the descriptor's number is read there, and keeps nothing of it.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

extern const char* const names[1024];

int read_one(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return -1;
  char c;
  if (read(fd, &c, 1) != 1) {
    puts(names[fd]);
    return -1;
  }
  close(fd);
  return c;
}
