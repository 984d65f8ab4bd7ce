// A pointer that was taken out of a record before the record's end.
#include <stdlib.h>

struct inner {
  char* text;
  int n;
};
struct outer {
  struct inner* in;
};

static void drop(struct outer* o) {
  if (o->in) {
    free(o->in->text);
    free(o->in);
  }
  free(o);
}

int f(void) {
  struct outer* o = calloc(1, sizeof *o);
  if (!o) return 1;
  o->in = calloc(1, sizeof *o->in);
  if (!o->in) {
    drop(o);
    return 1;
  }
  struct inner* keep = o->in;
  drop(o);
  return keep->n;
}
