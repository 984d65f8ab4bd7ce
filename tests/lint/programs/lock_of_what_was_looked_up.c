// Only the function knows whose lock it is.
#include <pthread.h>

struct account {
  pthread_mutex_t lock;
  int number, money;
  struct account* next;
};
static struct account* all;

static struct account* find(int number) {
  struct account* a;
  for (a = all; a; a = a->next) {
    if (a->number == number) break;
  }
  return a;
}

int f(int number, int money) {
  struct account* a = find(number);
  if (!a) return -1;
  pthread_mutex_lock(&a->lock);
  if (a->money < money) return -2;
  a->money -= money;
  pthread_mutex_unlock(&a->lock);
  return 0;
}
