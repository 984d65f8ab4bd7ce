// Lost only where it is asked to, and in all of the library nobody asks for that.
#include <stdio.h>

static int text_first(const char* name, int stays) {
  FILE* f = fopen(name, "r");
  if (!f) return -1;
  int c = fgetc(f);
  if (stays) return c;
  fclose(f);
  return c;
}

int text_is_empty(const char* name) { return text_first(name, 0) == EOF; }
