// A record whose text is freed already is copied as a whole, and the copy is dropped.
#include <stdlib.h>
#include <string.h>

struct name {
  char* text;
  long uses[6];
};

static void drop(struct name* n) { free(n->text); }

int f(const char* text) {
  struct name first, second;
  memset(&first, 0, sizeof first);
  first.text = strdup(text);
  if (!first.text) return -1;
  free(first.text);
  memcpy(&second, &first, sizeof second);
  memset(&first, 0, sizeof first);
  drop(&second);
  return 0;
}
