// Right: whether the name is "-" was asked when the file was opened; what it is called since does
// not change that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int count(const char* name) {
  FILE* in;
  char* shown = strdup(name);
  if (!shown) abort();
  if (strcmp(shown, "-") == 0) {
    in = stdin;
    free(shown);
    shown = strdup("(standard input)");
    if (!shown) abort();
  } else if (!(in = fopen(shown, "r"))) {
    free(shown);
    return -1;
  }
  int lines = 0, c;
  while ((c = fgetc(in)) != EOF) lines += c == '\n';
  if (strcmp(shown, "-") != 0) fclose(in);
  free(shown);
  return lines;
}
