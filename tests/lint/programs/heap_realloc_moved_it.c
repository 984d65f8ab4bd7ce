// What realloc gave is elsewhere, and the old memory is used.
#include <stdlib.h>

int grow(char* text, size_t size) {
  char* more = realloc(text, size);
  if (more == NULL) {
    free(text);
    return 0;
  }
  if (more == text) {
    free(more);
    return 1;
  }
  int first = text[0];
  free(more);
  return first;
}
