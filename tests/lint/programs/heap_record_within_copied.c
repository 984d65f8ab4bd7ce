// A record is copied into the middle of another.
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
static void pack(struct big* d, struct small* s) { memcpy(&d->rel, s, sizeof *s); }
int main(int argc, char** argv) {
  (void)argv;
  (void)argc;
  struct big* d = malloc(sizeof *d);
  struct small* s = malloc(sizeof *s);
  char* p = malloc(8);
  if (!p || !d || !s) return 1;
  init(s);
  pack(d, s);
  d->rel(p);
  free(p);
  free(d);
  free(s);
  return 0;
}
