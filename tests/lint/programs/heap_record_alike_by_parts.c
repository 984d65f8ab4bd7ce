// A record within another is filled as one that has all its fields itself.
#include <stdlib.h>
struct small {
  long x;
  void (*rel)(void*);
};
struct mid {
  long y;
  struct small s;
};
struct big {
  long a;
  struct mid m;
};
struct flat {
  long y, x;
  void (*rel)(void*);
};
static void drop(void* p) { free(p); }
static void init(struct flat* s) { s->rel = drop; }
int main(void) {
  struct big* d = malloc(sizeof *d);
  char* p = malloc(8);
  if (!p || !d) return 1;
  init((struct flat*)&d->m);
  d->m.s.rel(p);
  free(p);
  free(d);
  return 0;
}
