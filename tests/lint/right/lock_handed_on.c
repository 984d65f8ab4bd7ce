// Right: a lock that is handed on.
#include <pthread.h>
#include <stdlib.h>

struct p {
  pthread_mutex_t m;
  int n;
  struct p* next;
};
static struct p* all;
void add(int n) {
  struct p* p = calloc(1, sizeof *p);
  if (!p) return;
  pthread_mutex_init(&p->m, 0);
  p->n = n;
  p->next = all;
  all = p;
}
static struct p* find(int n) {
  struct p* p = all;
  while (p && p->n != n) p = p->next;
  return p;
}
int begin(int n, int* out) {
  struct p* p = find(n);
  if (!p) return -1;
  pthread_mutex_lock(&p->m);
  if (p->n < 1) {
    pthread_mutex_unlock(&p->m);
    return -1;
  }
  *out = p->n;
  return 0;
}
void end(int n) {
  struct p* p = find(n);
  if (p) {
    p->n++;
    pthread_mutex_unlock(&p->m);
  }
}
