// Wrong: as soon as the callee is done nobody has the stream, long before the program's end.
#include <stdio.h>

struct log {
  FILE* stream;
};

static void reset(struct log* l) { l->stream = NULL; }

int main(int argc, char** argv) {
  struct log l;
  if (argc < 2) return 2;
  l.stream = fopen(argv[1], "r");
  if (l.stream == NULL) return 1;
  reset(&l);
  getchar();
  return 0;
}
