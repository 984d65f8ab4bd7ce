// Right: a record begins with its union, in a record of its own, and its counts say which member.
#include <stdlib.h>
#include <string.h>

struct either {
  union {
    char* name;
    int* numbers;
  };
};
struct node {
  struct either e;
  int letters;
  unsigned short numbers;
};

void drop(struct node* n) {
  if (n->letters) free(n->e.name);
  if (n->numbers) free(n->e.numbers);
  free(n);
}

int main(int argc, char** argv) {
  struct node* n = calloc(1, sizeof *n);
  if (n == NULL) return 1;
  if (argc > 1) {
    n->letters = (int)strlen(argv[1]);
    n->e.name = strdup(argv[1]);
  } else {
    n->numbers = 2;
    n->e.numbers = calloc(2, sizeof(int));
  }
  drop(n);
  return 0;
}
