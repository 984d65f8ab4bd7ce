// What was freed is used again; what lies behind it in the record was cleared, and no more.
#include <stdlib.h>
#include <string.h>

struct text {
  char* data;
  char small[16];
};

static void set(struct text* t, size_t size, size_t length) {
  free(t->data);
  memset(t->small, 0, size);
  if (t->data != NULL) free(t->data);
  t->data = malloc(length);
}

int main(int argc, char** argv) {
  struct text t = {strdup(argv[0]), "a"};
  set(&t, argc > 1 ? sizeof t.small : 1, 8);
  free(t.data);
  return 0;
}
