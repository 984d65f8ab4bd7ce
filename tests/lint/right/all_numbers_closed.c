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

int main(int argc, char** argv) {
  leave_alone(argc);
  give_up_terminal(argv[argc - 1]);
}
