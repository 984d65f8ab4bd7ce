// Twice a descriptor's number is only compared and printed: nobody has the descriptor by that.
#include <fcntl.h>
#include <stdio.h>

static int twice(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return 1;
  if ((fd << 1) > 64) puts("many");
  printf("%d\n", (fd << 1) + 1);
  return 0;
}

int main(int argc, char** argv) { return twice(argv[0]); }
