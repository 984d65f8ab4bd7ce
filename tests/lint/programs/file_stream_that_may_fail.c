// Where fdopen failed the descriptor stays open.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int first(const char* name) {
  const int fd = open(name, O_RDONLY);
  if (fd < 0) return -1;
  FILE* f = fdopen(fd, "r");
  int c = 0;
  if (lseek(fd, 8, SEEK_SET) == 8 && f) c = getc(f);
  if (f) fclose(f);
  return c;
}

int main(int argc, char** argv) { return first(argv[argc - 1]); }
