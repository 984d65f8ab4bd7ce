// error() comes back if its status is 0.
#include <error.h>
#include <stdlib.h>
#include <string.h>

int f(const char* text) {
  char* copy = strdup(text);
  if (!copy) return 1;
  if (*copy == 0) {
    free(copy);
    error(0, 0, "%s", "empty");
  }
  int first = text[0];
  free(copy);
  return first;
}
