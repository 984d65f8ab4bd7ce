// Right: between two times that the lock is given back it is taken: by a name of another
// function's, or only where a flag says so.
#include <pthread.h>

struct queue {
  pthread_mutex_t lock;
  int length, open;
};

static struct queue* current;

static void take(void) { pthread_mutex_lock(&current->lock); }

int drain(struct queue* q, int wanted) {
  int got = 0;
  current = q;
  pthread_mutex_lock(&q->lock);
  while (q->length < wanted) {
    pthread_mutex_unlock(&q->lock);
    got += wanted;
    take();
  }
  pthread_mutex_unlock(&q->lock);
  return got;
}

int close_it(struct queue* q, int shared) {
  if (shared) pthread_mutex_lock(&q->lock);
  q->open = 0;
  if (shared) pthread_mutex_unlock(&q->lock);
  if (shared) pthread_mutex_lock(&q->lock);
  int left = q->length;
  if (shared) pthread_mutex_unlock(&q->lock);
  return left;
}
