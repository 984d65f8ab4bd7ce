// Taken twice only if the worker was put into the background meanwhile, by who counts.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BACKGROUND 4
struct worker {
  int flags, ports;
  pthread_mutex_t* lock;
};
static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;

static void count(struct worker* w) {
  w->flags |= 1;
  w->ports++;
}

int main(int argc, char** argv) {
  struct worker* w = calloc(1, sizeof *w);
  if (!w) return 1;
  w->flags = argc;
  if (!(w->flags & BACKGROUND)) pthread_mutex_lock(&all);
  count(w);
  if (!(w->flags & BACKGROUND)) pthread_mutex_unlock(&all);
  puts("begun");
  pthread_mutex_lock(&all);
  printf("%d\n", w->ports);
  pthread_mutex_unlock(&all);
  return 0;
}
