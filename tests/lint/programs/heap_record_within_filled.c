// A part of a record is filled as if it was a record of another kind.
#include <stdlib.h>
#include <string.h>
struct small {
  void (*rel)(void*);
  long x;
};
struct big {
  long a, b;
  void (*rel)(void*);
  long x;
};
static void drop(void* p) { free(p); }
static void init(struct small* s) {
  s->rel = drop;
  s->x = 0;
}
int main(int argc, char** argv) {
  (void)argv;
  (void)argc;
  struct big* d = malloc(sizeof *d);
  char* p = malloc(8);
  if (!p || !d) return 1;
  init((struct small*)&d->rel);
  d->rel(p);
  free(p);
  free(d);
  return 0;
}
