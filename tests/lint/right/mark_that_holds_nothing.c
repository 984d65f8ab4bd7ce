// A variable of which only the address counts holds what it held when the program began.
#include <stdlib.h>

char* failed;

static char** list(int n) {
  if (n < 0) return &failed;
  char** names = calloc((size_t)n + 1, sizeof *names);
  if (!names) return NULL;
  for (int i = 0; i < n; i++) names[i] = "name";
  return names;
}

int f(int n) {
  int count = 0;
  char** names = list(n);
  if (names == NULL || names[0] == NULL) {
    if (names && names != &failed) free(names);
    return 0;
  }
  while (names[count]) count++;
  free(names);
  return count;
}
