// That there is another element is asked in the loop, which does not end for want of one.
#include <stdio.h>
#include <stdlib.h>

struct list {
  int n;
  char* at[4];
};

static void end(struct list* v) {
  for (int i = 0;; ++i) {
    if (i < v->n) printf("%d\n", i);
    free(v->at[i]);
    if (getchar() < 0) break;
  }
  if (v->n == 0) puts(v->at[0]);
}

int main(void) {
  struct list* v = calloc(1, sizeof *v);
  if (v == NULL) return 1;
  v->at[0] = malloc(4);
  v->n = getchar();
  end(v);
  free(v);
  return 0;
}
