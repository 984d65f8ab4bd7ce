// A record is copied as a whole; both copies free what it holds.
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
  second = first;
  drop(&second);
  drop(&first);
  return 0;
}
