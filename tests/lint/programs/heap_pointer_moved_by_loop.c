// Blanks are skipped by the only pointer to the block.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void f(const char* text) {
  char* p = malloc(strlen(text) + 1);
  if (!p) return;
  strcpy(p, text);
  while (*p == ' ') p++;
  puts(p);
  free(p);
}
