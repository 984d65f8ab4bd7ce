// A record takes the function of another, which a table holds and which lies at another offset.
#include <stdlib.h>
struct ops {
  long x;
  void (*rel)(void*);
};
struct dev {
  long a, b;
  void (*rel)(void*);
};
static void drop(void* p) { free(p); }
static void keepit(void* p) { *(char*)p = 1; }
static struct ops one = {1, drop}, two = {2, keepit};
static struct ops* all[] = {&one, &two};
static void bind(struct dev* d, struct ops* o) { d->rel = o->rel; }
int main(int argc, char** argv) {
  (void)argv;
  struct dev* d = malloc(sizeof *d);
  if (!d) return 1;
  char* p = malloc(8);
  if (!p) {
    free(d);
    return 1;
  }
  bind(d, all[argc & 1]);
  d->rel(p);
  free(p);
  free(d);
  return 0;
}
