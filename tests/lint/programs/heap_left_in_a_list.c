// The first record of the list is freed, and stays its first.
#include <stdlib.h>

struct record {
  struct record* next;
  int* counted;
};
struct owner {
  struct record* first;
};

int drop(struct owner* o) {
  struct record* r = o->first;
  if (r == NULL) return 0;
  *r->counted = 0;
  free(r);
  return o->first->next != NULL;
}
