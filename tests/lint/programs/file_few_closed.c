// Some numbers are closed, but not the one of a file.
#include <fcntl.h>
#include <unistd.h>

static int leave(const char* log, int n) {
  const int fd = open(log, O_WRONLY);
  if (fd < 0 || write(fd, log, 1) != n) return -1;
  for (int other = 100; other < 1024; ++other) close(other);
  for (int other = 3; other < 8; ++other) close(other);
  return 0;
}

int main(int argc, char** argv) { return leave(argv[argc - 1], argc); }
