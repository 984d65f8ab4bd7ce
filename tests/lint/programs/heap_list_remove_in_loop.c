// Wrong on purpose: list remove in loop.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct n {
  struct n* next;
  char* s;
  int dead;
};
static void node_free(struct n* x) {
  free(x->s);
  free(x);
}
int main(int a, char** v) {
  struct n* h = NULL;
  for (int i = 1; i < a; i++) {
    struct n* x = malloc(sizeof *x);
    if (!x) return 1;
    x->s = strdup(v[i]);
    x->dead = i & 1;
    x->next = h;
    h = x;
  }
  for (struct n* p = h; p; p = p->next) {
    if (p->dead) node_free(p);
  }
  return 0;
}
