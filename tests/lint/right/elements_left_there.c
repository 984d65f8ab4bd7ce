// Right: a loop frees some elements of an array, and others are used.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct texts {
  char* at[8];
  int count;
};

static void until(struct texts* t) {
  for (int i = 0; i < 4; i++) {
    if (i == 2) break;
    free(t->at[i]);
  }
  puts(t->at[3]);
}

static void each_other(struct texts* t) {
  for (int i = 0; i < 8; i += 4) free(t->at[i]);
  puts(t->at[1]);
}

static void none(struct texts* t) {
  for (int i = 0; i < t->count; i++) free(t->at[i]);
  if (t->count == 0) puts(t->at[0]);
}

int main(int argc, char** argv) {
  struct texts t;
  t.count = argc > 7 ? 8 : argc - 1;
  for (int i = 0; i < 8; i++) t.at[i] = strdup(argv[0]);
  switch (argc) {
    case 1:
      until(&t);
      break;
    case 2:
      each_other(&t);
      break;
    default:
      none(&t);
  }
}
