// As many numbers are closed as the caller says, which are few.
#include <fcntl.h>
#include <unistd.h>

static void close_some(int most) {
  for (int fd = 3; fd < most; ++fd) close(fd);
}

static int look(const char* path) {
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return -1;
  char text[4];
  const int n = read(fd, text, sizeof text);
  close_some(4);
  return n;
}

int main(int argc, char** argv) {
  int n = 0;
  for (int i = 1; i < argc; i++) n += look(argv[i]);
  return n;
}
