// A program's own error(), whose format comes first: glibc's has it third.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  return -1;
}

int main(void) {
  const char* mode = getenv("MODE");
  return mode == NULL ? 0 : error("bad %s: %s\n", "MODE", mode);
}
