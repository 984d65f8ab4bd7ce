// Right: each record is taken out of its list, by the place that it notes itself, before it goes.
#include <stdlib.h>

struct record {
  struct record* next;
  struct record** before;
};
struct owner {
  struct record* first;
  struct record** last;
};

void drop(struct owner* o) {
  struct record* r;
  while ((r = o->first) != NULL) {
    if (r->next != NULL)
      r->next->before = r->before;
    else
      o->last = r->before;
    *r->before = r->next;
    free(r);
  }
  free(o);
}
