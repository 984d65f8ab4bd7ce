// Two formats from outside: the answer about the one lets the other be, and that about the other is
// only printed.
#include <stdio.h>
#include <stdlib.h>

static int directives(const char* format) {
  int count = 0;
  for (; *format != '\0'; ++format) count += *format == '%';
  return count;
}

int main(int argc, char** argv) {
  (void)argc;
  const char *open = getenv("OPEN"), *close = getenv("CLOSE");
  if (open == NULL || close == NULL) return 1;
  if (directives(open) > 1) return 2;
  printf("%d\n", directives(close));
  printf(close, argv[0]);
  return 0;
}
