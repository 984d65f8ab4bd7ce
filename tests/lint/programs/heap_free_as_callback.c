// free itself is what a pointer to a function leads to.
#include <stdlib.h>

typedef void (*done)(void*);
static void finish(void* what, done f) { f(what); }

int f(void) {
  int* p = malloc(sizeof *p);
  if (!p) return -1;
  *p = 1;
  finish(p, free);
  return *p;
}
