// All numbers are closed, but only where somebody wants it.
#include <fcntl.h>
#include <unistd.h>

static void close_all(int really) {
  if (!really) return;
  for (int fd = 3; fd < 1024; ++fd) close(fd);
}

static int leave(const char* log, int n) {
  const int fd = open(log, O_WRONLY);
  if (fd < 0 || dup2(fd, 2) < 0) return -1;
  close_all(n > 2);
  return 0;
}

int main(int argc, char** argv) { return leave(argv[argc - 1], argc); }
