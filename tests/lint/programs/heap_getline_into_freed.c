// getline takes the block of the line before, which is freed.
#include <stdio.h>
#include <stdlib.h>

void f(FILE* in) {
  char* line = NULL;
  size_t size = 0;
  while (getline(&line, &size, in) > 0) {
    puts(line);
    free(line);
  }
}
