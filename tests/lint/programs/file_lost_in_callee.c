// Wrong: the callee overwrites the only place that leads to the stream; what the caller opened it
// in speaks of it no more.
#include <stdio.h>

struct log {
  FILE* stream;
  int lines;
};

static void reset(struct log* l) {
  l->stream = NULL;
  l->lines = 0;
}

int count(const char* name) {
  struct log l;
  l.lines = 0;
  l.stream = fopen(name, "r");
  if (l.stream == NULL) return -1;
  reset(&l);
  return l.lines;
}

int main(int argc, char** argv) { return argc > 1 ? count(argv[1]) : 0; }
