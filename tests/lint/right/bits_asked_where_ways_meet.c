// Where none of several bits was set, none is, though one is set on another way that meets this.
#include <fcntl.h>
#include <unistd.h>

enum { kInput = 1, kHelper = 2, kEcho = 4 };

int ask(const char* terminal, int flags) {
  int fd = -1;
  char c = 0;
  if (!(flags & (kInput | kHelper))) {
    fd = open(terminal, O_RDWR);
    if (fd < 0 && !(flags & kEcho)) flags |= kHelper;
  }
  if (flags & kHelper) return 'h';
  if (read(fd >= 0 ? fd : 0, &c, 1) != 1) c = 'n';
  if (fd >= 0) close(fd);
  return c;
}

int main(int argc, char** argv) { return ask(argv[argc - 1], argc); }
