// Right: a number of bytes before it.
#include <stdlib.h>

static void* (*get)(size_t) = malloc;
static void (*put)(void*) = free;
static void* mine(size_t n) {
  char* p = malloc(n + 16);
  return p ? p + 16 : 0;
}
static void drop(void* p) { free((char*)p - 16); }
void use(void) {
  get = mine;
  put = drop;
}
void f(void) {
  char* p = get(8);
  if (!p) return;
  *p = 1;
  put(p);
}
