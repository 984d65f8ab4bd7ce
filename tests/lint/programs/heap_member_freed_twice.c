// Wrong: one member, freed twice under the same mark.
#include <stdlib.h>
#include <string.h>

struct node {
  int name_length;
  unsigned short addresses;
  union {
    char* name;
    int* addresses;
  } u;
};

static void give_back(struct node* n, void* p) {
  (void)n;
  free(p);
}

void drop(struct node* n) {
  if (n->name_length) give_back(n, n->u.name);
  if (n->name_length > 1) give_back(n, n->u.name);
  give_back(n, n);
}

int main(int argc, char** argv) {
  struct node* n = calloc(1, sizeof *n);
  if (n == NULL || argc < 2) return 1;
  n->name_length = (int)strlen(argv[1]);
  n->u.name = strdup(argv[1]);
  drop(n);
  return 0;
}
