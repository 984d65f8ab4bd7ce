// Wrong on purpose: callback under lock.
#include <pthread.h>
#include <sys/stat.h>

struct ev {
  pthread_mutex_t m;
  void (*cb)(struct ev*);
  int n;
};
static void on(struct ev* e) {
  pthread_mutex_lock(&e->m);
  e->n++;
  pthread_mutex_unlock(&e->m);
}
static void fire(struct ev* e) {
  pthread_mutex_lock(&e->m);
  if (e->cb) e->cb(e);
  pthread_mutex_unlock(&e->m);
}
int main(void) {
  static struct ev e;
  e.cb = on;
  pthread_mutex_init(&e.m, 0);
  fire(&e);
  return 0;
}
