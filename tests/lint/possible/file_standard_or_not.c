// Whether it is the standard stream is asked twice, of what was read anew.
#include <stdio.h>

int f(const char* name, const unsigned char* how) {
  FILE* out = stdout;
  int wrong = 0;
  if (name && !(out = fopen(name, "w"))) return 1;
  fputs("text", out);
  if (out != stdout && (how['z'] || how['v']) && fclose(out) != 0) wrong = 1;
  if (!(out != stdout && (how['z'] || how['v']) ? 1
        : out == stdout                         ? fflush(out) == 0
                                                : fclose(out) == 0))
    wrong = 1;
  return wrong;
}
