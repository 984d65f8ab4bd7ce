// Wrong: the callee loses each stream, and the variable that it was opened in gets the next.
#include <stdio.h>

struct log {
  FILE* stream;
};

static void reset(struct log* l) { l->stream = NULL; }

int main(int argc, char** argv) {
  struct log l;
  for (int i = 1; i < argc; ++i) {
    l.stream = fopen(argv[i], "r");
    if (l.stream == NULL) return 1;
    reset(&l);
  }
  return 0;
}
