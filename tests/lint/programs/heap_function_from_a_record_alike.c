// A record is cast to another that begins alike, from which a third takes its function.
#include <stdlib.h>
struct A {
  long x;
  void (*rel)(void*);
};
struct B {
  long x;
  void (*rel)(void*);
};
struct C {
  long a, b;
  void (*rel)(void*);
};
static void drop(void* p) { free(p); }
static void init(struct A* a) { a->rel = drop; }
static void bind(struct C* d, struct B* o) { d->rel = o->rel; }
int main(int argc, char** argv) {
  (void)argv;
  (void)argc;
  struct C* d = malloc(sizeof *d);
  struct A* a = malloc(sizeof *a);
  char* p = malloc(8);
  if (!p || !d || !a) return 1;
  init(a);
  bind(d, (struct B*)a);
  d->rel(p);
  free(p);
  free(d);
  free(a);
  return 0;
}
