// An owner more is counted by an atomic operation in an object that was freed.
#include <stdatomic.h>
#include <stdlib.h>

struct object {
  _Atomic int owners;
};

int main(int argc, char** argv) {
  struct object* o = calloc(1, sizeof *o);
  (void)argv;
  if (o == NULL) return 1;
  if (argc > 1) free(o);
  atomic_fetch_add(&o->owners, 1);
  if (argc < 2) free(o);
  return 0;
}
