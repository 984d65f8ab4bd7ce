// The count that says whether the file is open is set to nothing by who is called meanwhile.
#include <stdio.h>

struct queue {
  int count;
  char items[8];
};

static void drain(struct queue* q) {
  for (int i = 0; i < q->count; ++i) putchar(q->items[i]);
  q->count = 0;
}

int spill(struct queue* q, const char* name) {
  FILE* f = NULL;
  if (q->count > 0) {
    f = fopen(name, "w");
    if (!f) return -1;
    fputc('a', f);
  }
  drain(q);
  if (q->count > 0) fclose(f);
  return 0;
}
