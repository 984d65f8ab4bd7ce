// The descriptor is asked where it was closed.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct target {
  FILE* to;
  int flags;
};

int redirect(struct target* t, const char* name) {
  int fd = open(name, O_WRONLY);
  if (fd < 0) return -1;
  if (fd == 1) {
    t->to = stdout;
  } else {
    t->to = fdopen(fd, "w");
    if (!t->to) close(fd);
  }
  if (!t->to && isatty(fd)) t->flags |= 1;
  return 0;
}
