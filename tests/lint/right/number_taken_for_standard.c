// Right: what is opened takes the lowest number, which was made free, or is asked for that.
#include <fcntl.h>
#include <unistd.h>

static int into(const char* name) { return open(name, O_WRONLY) < 0 ? -1 : 0; }

int begin(const char* name) {
  close(1);
  return into(name);
}

static void close_all(void) {
  for (int fd = 0; fd < 64; ++fd) close(fd);
}

int leave(const char* name) {
  close_all();
  if (open(name, O_RDWR) < 0) return 1;
  return dup(0) < 0 || dup(0) < 0;
}

int fill(void) { return open("/dev/null", O_RDWR) < 0; }

int is_input(const char* name) {
  const int fd = open(name, O_RDONLY);
  return fd != 0 ? 1 : 0;
}
