// All numbers are closed, but only where somebody wants it.
#include <fcntl.h>
#include <unistd.h>

static void close_all(int really) {
  if (!really) return;
  for (int fd = 3; fd < 1024; ++fd) close(fd);
}

static void leave(const char* log, int n) {
  const int fd = open(log, O_WRONLY);
  dup2(fd, 2);
  close_all(n > 2);
}

int main(int argc, char** argv) {
  leave(argv[argc - 1], argc);
  return 0;
}
