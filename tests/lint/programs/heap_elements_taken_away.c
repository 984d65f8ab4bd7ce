// A loop frees the elements of an array by ones to its end, and the last is used.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct texts {
  char* at[8];
};

static void drop(struct texts* t) {
  for (int i = 0; i < 4; i++) free(t->at[i]);
  puts(t->at[3]);
}

int main(int argc, char** argv) {
  struct texts t;
  for (int i = 0; i < 8; i++) t.at[i] = strdup(argv[argc - 1]);
  drop(&t);
}
