// Wrong on purpose: given back twice, with a call between that takes no lock.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void note(int n) { printf("%d\n", n); }

static void add(int n) {
  pthread_mutex_lock(&lock);
  sum += n;
  pthread_mutex_unlock(&lock);
  note(n);
  pthread_mutex_unlock(&lock);
}

int main(int argc, char** argv) {
  (void)argv;
  add(argc);
  return sum;
}
