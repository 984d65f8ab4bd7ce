// A format from outside, which a function of the program looks through first: what it allows is not
// followed.
#include <stdio.h>
#include <stdlib.h>

static int directives(const char* format) {
  int count = 0;
  for (; *format != '\0'; ++format) {
    if (*format != '%') continue;
    if (*++format != 's') return 99;
    ++count;
  }
  return count;
}

int main(int argc, char** argv) {
  (void)argc;
  const char* format = getenv("CLOSE");
  if (format == NULL) return 1;
  if (directives(format) > 1) return 2;
  printf(format, argv[0]);
  return 0;
}
