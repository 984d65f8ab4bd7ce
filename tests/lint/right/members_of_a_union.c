// Right: a record has one member of its union, and its counts say which.
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
  if (n->addresses > 1) give_back(n, n->u.addresses);
  give_back(n, n);
}

int main(int argc, char** argv) {
  struct node* n = calloc(1, sizeof *n);
  if (n == NULL) return 1;
  if (argc > 1) {
    n->name_length = (int)strlen(argv[1]);
    n->u.name = strdup(argv[1]);
  } else {
    n->addresses = 2;
    n->u.addresses = calloc(2, sizeof(int));
  }
  drop(n);
  return 0;
}
