// Right: what decides whether a file is opened decides whether it is closed: the same question.
#include <assert.h>
#include <stdio.h>
#include <string.h>

static int is_standard(const char* name) {
  assert(name != NULL);
  return strcmp(name, "stdout") == 0;
}

static FILE* begin(const char* name) {
  FILE* out;
  if (is_standard(name))
    out = stdout;
  else
    out = fopen(name, "w");
  return out;
}

int write_to(const char* name, int c) {
  FILE* out = begin(name);
  if (out == NULL) return -1;
  int wrong = fputc(c, out);
  if (!is_standard(name)) fclose(out);
  return wrong;
}

int read_from(const char* name) {
  FILE* in = stdin;
  if (strcmp(name, "-") != 0) {
    in = fopen(name, "r");
    if (in == NULL) return -1;
  }
  int c = fgetc(in);
  if (strcmp(name, "-") != 0) fclose(in);
  return c;
}
