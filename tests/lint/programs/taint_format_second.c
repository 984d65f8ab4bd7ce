// A wrapper of vasprintf by a name that elsewhere has its format first.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int vasprintf(char** out, const char* format, va_list list);

int xasprintf(char** out, const char* format, ...) {
  va_list list;
  va_start(list, format);
  int length = vasprintf(out, format, list);
  va_end(list);
  if (length < 0) exit(1);
  return length;
}

int main(void) {
  char line[99], *out;
  if (fgets(line, sizeof line, stdin) == NULL) return 1;
  xasprintf(&out, line);
  free(out);
  return 0;
}
