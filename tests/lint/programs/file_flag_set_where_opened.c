// A flag is set where something was opened, and asked before that is closed.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define EIGHT(n) +o[n] + o[n + 1] + o[n + 2] + o[n + 3] + o[n + 4] + o[n + 5] + o[n + 6] + o[n + 7]

static int put(const char* name, int* fresh, const int* o) {
  int fd = -1, options = 0;
  if (!*fresh) {
    fd = open(name, O_WRONLY);
    if (fd >= 0 && errno == ENOENT) *fresh = 1;
    options = EIGHT(0) EIGHT(8) EIGHT(16) EIGHT(24) EIGHT(32) EIGHT(40);
  }
  if (*fresh) fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return -1;
  const int done = write(fd, name, options) == options;
  close(fd);
  return done;
}

int main(int argc, char** argv) {
  int fresh = argc > 3, options[48] = {argc};
  return put(argv[1], &fresh, options);
}
