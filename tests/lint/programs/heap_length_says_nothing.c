// A length that was set beside the text, and is another one later.
#include <stdlib.h>
#include <string.h>

char* expand(const char* text, int* length);
void make_room(char* out);

int f(const char* text, char* out, int more) {
  char* made;
  int length;
  if (text && *text)
    made = expand(text, &length);
  else
    made = "", length = 0;
  make_room(out);
  memcpy(out, made, (size_t)length);
  length += more;
  if (length) free(made);
  return length;
}
