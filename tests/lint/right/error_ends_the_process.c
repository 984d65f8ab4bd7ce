// error() does not come back if it is given a status.
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>

int f(const char* text) {
  char* copy = strdup(text);
  if (!copy) error(EXIT_FAILURE, errno, "no memory");
  if (*copy == 0) {
    free(copy);
    error(2, 0, "%s", "empty");
  }
  int first = *copy;
  free(copy);
  return first;
}
