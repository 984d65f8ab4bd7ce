// Wrong on purpose: wrapper lock twice.
#include <pthread.h>
#include <sys/stat.h>

struct q {
  pthread_mutex_t m;
  int n;
};
static void q_lock(struct q* q) { pthread_mutex_lock(&q->m); }
static void q_unlock(struct q* q) { pthread_mutex_unlock(&q->m); }
static int q_len(struct q* q) {
  q_lock(q);
  int n = q->n;
  q_unlock(q);
  return n;
}
static void q_push(struct q* q) {
  q_lock(q);
  if (q_len(q) < 10) q->n++;
  q_unlock(q);
}
int main(void) {
  struct q q;
  pthread_mutex_init(&q.m, 0);
  q.n = 0;
  q_push(&q);
  return 0;
}
