// The record that says whether the file is open is cleared as a whole meanwhile.
#include <stdio.h>
#include <string.h>

struct queue {
  int count;
  char items[8];
};

int spill(struct queue* q, const char* name) {
  FILE* f = NULL;
  if (q->count > 0) {
    f = fopen(name, "w");
    if (!f) return -1;
    fputc(q->items[0], f);
  }
  memset(q, 0, sizeof *q);
  if (q->count > 0) fclose(f);
  return 0;
}
