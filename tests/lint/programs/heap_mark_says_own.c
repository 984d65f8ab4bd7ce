// Wrong: the text is said to be the record's own, and is not.
#include <stdlib.h>
#include <string.h>

struct item {
  int borrows;
  char* text;
};

void drop(struct item* i) {
  if (!i->borrows && i->text) free(i->text);
}

int main(int argc, char** argv) {
  struct item i;
  i.text = argc > 1 ? "nothing" : strdup(argv[0]);
  i.borrows = 0;
  drop(&i);
  return 0;
}
