// A record takes the function of another, which C++ names in two ways.
#include <cstdlib>
struct Ops {
  long x;
  void (*rel)(void*);
};
struct Dev {
  long a, b;
  void (*rel)(void*);
};
static void drop(void* p) { free(p); }
static void keepit(void* p) { *(char*)p = 1; }
static Ops one = {1, drop}, two = {2, keepit};
static Ops* all[] = {&one, &two};
static void bind(Dev* d, Ops* o) { d->rel = o->rel; }
int main(int argc, char**) {
  Dev* d = (Dev*)malloc(sizeof *d);
  if (!d) return 1;
  char* p = (char*)malloc(8);
  if (!p) {
    free(d);
    return 1;
  }
  bind(d, all[argc & 1]);
  d->rel(p);
  free(p);
  free(d);
}
