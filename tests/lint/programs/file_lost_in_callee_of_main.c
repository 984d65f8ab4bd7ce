// Wrong: as soon as the callee is done nobody has the stream, long before the program's end.
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
