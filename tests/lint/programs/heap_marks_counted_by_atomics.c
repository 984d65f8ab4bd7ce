// Marks, not owners, are counted by the atomic operation: the only owner gives it up.
#include <stdlib.h>

struct object {
  int owners, marks;
};

static struct object* make(void) {
  struct object* o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->owners = 1;
  return o;
}

static void add(struct object* o) { __sync_fetch_and_add(&o->marks, 1); }

static void unref(struct object* o) {
  if (--o->owners > 0) return;
  free(o);
}

static int marks(void) {
  struct object* o = make();
  if (!o) return 1;
  add(o);
  unref(o);
  return o->marks;
}

int main(int argc, char** argv) { return argc > 1 ? marks() : 0; }
