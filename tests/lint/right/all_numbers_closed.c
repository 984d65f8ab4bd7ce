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

static void give_up_terminal(const char* log) {
  const int fd = open(log, O_WRONLY);
  dup2(fd, 2);
  close_all(sysconf(_SC_OPEN_MAX));
}

static int returns_early(const char* path) {
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return -1;
  char text[4];
  const int n = read(fd, text, sizeof text);
  close_all(sysconf(_SC_OPEN_MAX));
  return n;
}

int main(int argc, char** argv) {
  if (returns_early(argv[0]) < 0) return 1;
  leave_alone(argc);
  give_up_terminal(argv[argc - 1]);
}
