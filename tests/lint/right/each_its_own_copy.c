// Right: each its own copy.
#include <stdlib.h>
#include <string.h>

struct m {
  char* s;
  long n[8];
};
int f(const char* t) {
  struct m a, b;
  memset(&a, 0, sizeof a);
  a.s = strdup(t);
  if (!a.s) return 1;
  b = a;
  b.s = strdup(a.s);
  free(a.s);
  free(b.s);
  return 0;
}
