// Wrong on purpose: vector realloc stale elem.
#include <stdlib.h>
#include <sys/stat.h>

struct vec {
  int* d;
  size_t n, cap;
};
static int push(struct vec* v, int x) {
  if (v->n == v->cap) {
    size_t c = v->cap ? v->cap * 2 : 4;
    int* d = realloc(v->d, c * sizeof *d);
    if (!d) return -1;
    v->d = d;
    v->cap = c;
  }
  v->d[v->n++] = x;
  return 0;
}
int main(int a, char** v) {
  struct vec q = {malloc(16), 0, 4};
  if (!q.d) return 1;
  int* old = q.d;
  int* d = realloc(q.d, 64);
  if (!d) return 1;
  q.d = d;
  old[0] = a;
  push(&q, 1);
  free(q.d);
  return 0;
}
