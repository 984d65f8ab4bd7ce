// What was freed is used again unless the record was cleared that far.
#include <stdlib.h>
#include <string.h>

struct text {
  size_t length;
  char* data;
};

static void set(struct text* t, size_t size, size_t length) {
  free(t->data);
  memset(t, 0, size);
  if (t->data != NULL) free(t->data);
  t->data = malloc(length);
  t->length = length;
}

int main(int argc, char** argv) {
  struct text t = {1, strdup(argv[0])};
  set(&t, argc > 1 ? sizeof t : sizeof(size_t), 8);
  free(t.data);
  return 0;
}
