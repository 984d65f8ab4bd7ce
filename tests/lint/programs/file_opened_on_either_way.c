// The function opens a file whatever it is asked for, by two calls of another; it is lost.
#include <stdio.h>

enum mode { NEEDED, PROBE };

static FILE* open_read(const char* name) {
  FILE* f = fopen(name, "r");
  if (!f) perror(name);
  for (int i = 0; i < 3; ++i) puts(name);
  return f;
}

static FILE* search(const char* name, enum mode mode) {
  FILE* f;
  if (mode != PROBE)
    f = open_read(name);
  else
    f = open_read("index");
  return f;
}

static FILE* include(const char* name, enum mode mode) {
  FILE* f = search(name, mode);
  if (!f && mode != PROBE) puts("none");
  return f;
}

int run(const char* name) {
  FILE* f = include(name, NEEDED);
  if (!f) return 1;
  fclose(f);
  include(name, PROBE);
  return 0;
}
