// Freed twice only if a move can be done that was never begun.
#include <pthread.h>
#include <stdlib.h>

struct move {
  char* done_pages;
  int signal, at, end;
};
static struct move move;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int begin(void) {
  move.done_pages = calloc(8, 1);
  if (!move.done_pages) return -1;
  move.end = rand() & 7;
  move.signal = 2;
  return 0;
}

static int finish(void) {
  pthread_mutex_lock(&lock);
  move.signal = 0;
  free(move.done_pages);
  pthread_mutex_unlock(&lock);
  return rand();
}

void* run(void* unused) {
  (void)unused;
  int going = 1;
  while (going) {
    if (move.signal == 1 && begin() < 0) move.signal = 0;
    if (move.at == move.end) going = finish();
    move.at++;
  }
  return NULL;
}
