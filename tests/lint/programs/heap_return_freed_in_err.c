// Wrong on purpose: return freed in err.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char* rd(FILE* f) {
  char* b = malloc(128);
  if (!b) return NULL;
  if (!fgets(b, 128, f)) {
    free(b);
  }
  return b;
}
int main(void) {
  char* l = rd(stdin);
  if (!l) return 1;
  puts(l);
  free(l);
  return 0;
}
