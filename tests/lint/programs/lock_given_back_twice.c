// Of two locks one is given back twice, and the other never.
#include <pthread.h>

struct account {
  pthread_mutex_t reading, writing;
  int sum;
};

int deposit(struct account* a, int sum) {
  pthread_mutex_lock(&a->reading);
  pthread_mutex_lock(&a->writing);
  a->sum += sum;
  sum = a->sum;
  pthread_mutex_unlock(&a->reading);
  pthread_mutex_unlock(&a->reading);
  return sum;
}
