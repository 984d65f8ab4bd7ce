// Formats from outside whose length alone is compared with the number of `%`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_short(const char* text) { return strlen(text) < 37; }
static int is_length(const char* text) { return strlen(text) == 37; }

int main(void) {
  const char *one = getenv("ONE"), *other = getenv("OTHER");
  if (one != NULL && is_short(one)) printf(one);
  if (other != NULL && is_length(other)) printf(other);
  return 0;
}
