// Given back, and once more by the cleanup.
#include <pthread.h>

static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static int count;

int main(int argc, char** argv) {
  pthread_cleanup_push((void (*)(void*))pthread_mutex_unlock, &all);
  pthread_mutex_lock(&all);
  count += argc;
  pthread_mutex_unlock(&all);
  pthread_cleanup_pop(1);
  return count;
}
