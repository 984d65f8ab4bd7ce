// Right: the count decides whether a file is opened and closed; what else is written leaves it.
#include <stdio.h>
#include <string.h>

struct queue {
  int count, written;
  char items[8];
};

static void drain(struct queue* q, FILE* to) {
  for (int i = 0; i < q->count; ++i) fputc(q->items[i], to);
  q->written++;
}

int spill(struct queue* q, const char* name) {
  FILE* f = NULL;
  if (q->count > 0) {
    f = fopen(name, "w");
    if (!f) return -1;
  }
  if (f) drain(q, f);
  memset(q->items, 0, sizeof q->items);
  if (q->count > 0) fclose(f);
  return 0;
}

int main(int argc, char** argv) {
  struct queue q = {argc, 0, {0}};
  return spill(&q, argv[0]);
}
