// Right: a count that falls to nothing.
#include <stdlib.h>

struct r {
  int n;
  char* b;
};
static void put(struct r* r) {
  if (--r->n == 0) {
    free(r->b);
    free(r);
  }
}
int f(struct r* r) {
  put(r);
  return r->n;
}
