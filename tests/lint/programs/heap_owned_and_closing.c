// Wrong: two flags of a record that both hold: the text is freed twice.
#include <stdlib.h>
#include <string.h>

struct session {
  int owned, closing;
  char* text;
};

void drop(struct session* s) {
  if (s->owned) free(s->text);
  if (s->closing) free(s->text);
}

int main(int argc, char** argv) {
  struct session s = {argc > 1, argc > 2, strdup(argv[0])};
  drop(&s);
  return 0;
}
