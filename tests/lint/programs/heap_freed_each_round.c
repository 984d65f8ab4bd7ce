// A block that only this function knows is freed in each round.
#include <stdio.h>
#include <stdlib.h>

int rounds(FILE* in) {
  char line[64];
  int seen = 0;
  char* block = malloc(64);
  if (!block) return -1;
  while (fgets(line, sizeof line, in)) {
    if (line[0] == '#') free(block);
    seen++;
  }
  return seen;
}
