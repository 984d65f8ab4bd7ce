// A length that was set beside the text says whether it was made.
#include <stdlib.h>
#include <string.h>

char* expand(const char* text, int* length);
void make_room(char* out);

int f(const char* text, char* out) {
  char* made;
  int length;
  if (text && *text)
    made = expand(text, &length);
  else
    made = "", length = 0;
  make_room(out);
  memcpy(out, made, (size_t)length);
  if (length) free(made);
  return length;
}
