// Of two that a function opens, the second is lost where the same question is answered as it was.
#include <stdio.h>

struct source {
  int flags;
};

static FILE* make(struct source* s, const char* name) {
  if (s->flags & 4) return fopen(name, "r");
  return fopen("default", "r");
}

static int first(struct source* s, const char* name) {
  FILE* f = make(s, name);
  if (!f) return -1;
  int c = fgetc(f);
  if (s->flags & 4) fclose(f);
  return c;
}

int main(int argc, char** argv) {
  struct source s = {argc};
  return first(&s, argv[0]);
}
