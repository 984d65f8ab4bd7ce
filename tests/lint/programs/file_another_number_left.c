// Another number for what a caller has: nobody keeps it.
#include <fcntl.h>
#include <unistd.h>

static int keep(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC); }

static int both(int fd) { return keep(dup(fd)); }

int main(int argc, char** argv) {
  int fd = open(argv[argc - 1], O_RDONLY);
  if (fd < 0) return 1;
  const int done = both(fd);
  close(fd);
  return done;
}
