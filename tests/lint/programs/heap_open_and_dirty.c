// Wrong: the second flag is asked beside the first, and the buffer is freed for both.
#include <stdlib.h>

struct cache {
  int open, dirty;
  char* buffer;
};

void drop(struct cache* c) {
  if (c->open) free(c->buffer);
  if (c->open && c->dirty) free(c->buffer);
}

int main(int argc, char** argv) {
  (void)argv;
  struct cache* c = calloc(1, sizeof *c);
  if (c == NULL) return 1;
  c->open = argc > 1;
  c->dirty = argc > 2;
  c->buffer = malloc(64);
  drop(c);
  free(c);
  return 0;
}
