// Taken twice only if the first memory that is asked for is the lock's own.
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t global = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t* of_cache;
static void* cache;

static void* memory(size_t n);

static void take(pthread_mutex_t** lock) {
  if (*lock == NULL) {
    pthread_mutex_lock(&global);
    if (*lock == NULL) {
      pthread_mutex_t* made = memory(sizeof *made);
      pthread_mutex_init(made, NULL);
      *lock = made;
    }
    pthread_mutex_unlock(&global);
  }
  pthread_mutex_lock(*lock);
}

static void* memory(size_t n) {
  if (cache == NULL) {
    take(&of_cache);
    cache = malloc(64);
    pthread_mutex_unlock(of_cache);
  }
  void* p = malloc(n);
  if (p == NULL) abort();
  return p;
}

int main(int argc, char** argv) {
  static pthread_mutex_t* mine;
  take(&mine);
  pthread_mutex_unlock(mine);
  return 0;
}
