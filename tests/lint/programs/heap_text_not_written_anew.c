// Where no text could be written, the last one is used once more.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  char* name = NULL;
  for (int i = 0; i < argc; i++) {
    if (asprintf(&name, "%s/%d", argv[0], i) == -1) puts("no memory");
    puts(name);
    free(name);
  }
  return 0;
}
