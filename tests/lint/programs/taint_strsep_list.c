// Wrong on purpose: strsep list.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void show(char* t) {
  char* w;
  while ((w = strsep(&t, ","))) {
    if (*w) fprintf(stdout, w);
  }
}
int main(void) {
  char b[200];
  if (!fgets(b, 200, stdin)) return 1;
  char* d = strdup(b);
  if (!d) return 1;
  show(d);
  free(d);
  return 0;
}
