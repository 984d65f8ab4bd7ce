// A record of constants is copied into the middle of another, from a field that is no function.
#include <stdlib.h>
#include <string.h>
struct big {
  long a, b;
  void (*rel)(void*);
  long x;
};
struct other {
  long a;
  void (*rel)(void*);
  long x;
};
static void drop(void* p) { free(p); }
static struct other proto = {1, drop, 2};
int main(void) {
  struct big d;
  memset(&d, 0, sizeof d);
  char* p = malloc(8);
  if (!p) return 1;
  memcpy(&d.b, &proto.a, sizeof(struct other));
  d.rel(p);
  free(p);
  return 0;
}
