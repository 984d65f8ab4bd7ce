// What the function that is asked reads is set to nothing meanwhile.
#include <stdio.h>

struct queue {
  int count;
  char items[8];
};

static int has_items(const struct queue* q) { return q->count > 0; }

static void drain(struct queue* q) {
  for (int i = 0; i < q->count; ++i) putchar(q->items[i]);
  q->count = 0;
}

int spill(struct queue* q, const char* name) {
  FILE* f = NULL;
  if (has_items(q)) {
    f = fopen(name, "w");
    if (!f) return -1;
    fputc('a', f);
  }
  drain(q);
  if (has_items(q)) fclose(f);
  return 0;
}
