// Right: each round has its own text, or ends.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int main(int argc, char** argv) {
  char* name;
  struct stat s;
  for (int i = 0; i < argc; i++) {
    int n = asprintf(&name, "%s/%d", argv[0], i);
    if (n == -1) return 1;
    if (lstat(name, &s) == -1) {
      free(name);
      continue;
    }
    puts(name);
    free(name);
  }
  return 0;
}
