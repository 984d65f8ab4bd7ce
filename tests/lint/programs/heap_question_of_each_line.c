// Freed twice where a line without a "+" follows one that has it.
#include <stdio.h>
#include <stdlib.h>

struct key {
  int kind, flags;
};

static int is_hard(const struct key* k) { return k->kind == 3; }

static char* begin(void) {
  char* note = malloc(16);
  if (!note) abort();
  return note;
}

int sign(const struct key* k, FILE* in) {
  char line[64];
  char* note = NULL;
  int done = 0;
  while (fgets(line, sizeof line, in)) {
    if (line[0] == '+') note = begin();
    done += line[0] == '+';
    free(note);
  }
  return done;
}
