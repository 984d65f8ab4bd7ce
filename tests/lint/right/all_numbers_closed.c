// Right: what was opened for standard numbers is closed with all others, one after another.
#include <fcntl.h>
#include <unistd.h>

static void leave_alone(int kept) {
  dup2(open("/dev/null", O_RDONLY), 0);
  for (int fd = 3; fd < 1024; ++fd) {
    if (fd != kept) close(fd);
  }
}

static void close_all(int most) {
  for (int fd = 3; fd < most; ++fd) close(fd);
}

static int give_up_terminal(const char* log) {
  const int fd = open(log, O_WRONLY);
  if (fd < 0 || dup2(fd, 2) < 0) return -1;
  close_all(sysconf(_SC_OPEN_MAX));
  return 0;
}

int main(int argc, char** argv) {
  leave_alone(argc);
  return give_up_terminal(argv[argc - 1]);
}
