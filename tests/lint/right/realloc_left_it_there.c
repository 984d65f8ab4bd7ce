// What realloc gave is the old memory if it is where that was.
#include <stdlib.h>

char* grow(char* text, size_t size) {
  char* more = realloc(text, size);
  if (more == NULL) {
    free(text);
    return NULL;
  }
  if (more != text) text = more;
  text[0] = 0;
  return text;
}
