// A format from outside whose length is compared with the number of `%`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_length(const char* text) { return strlen(text) == 37; }

int main(void) {
  const char* format = getenv("FORMAT");
  if (format != NULL && is_length(format)) printf(format);
  return 0;
}
