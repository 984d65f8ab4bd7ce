// Who makes what is missing asks for memory under the lock, and that takes it, too.
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t global = PTHREAD_MUTEX_INITIALIZER;
static int asked;
static char* table;

static void* memory(size_t n) {
  pthread_mutex_lock(&global);
  asked++;
  pthread_mutex_unlock(&global);
  return malloc(n);
}

static void make(void) {
  if (table == NULL) {
    pthread_mutex_lock(&global);
    if (table == NULL) table = memory(64);
    pthread_mutex_unlock(&global);
  }
}

int main(int argc, char** argv) {
  make();
  return asked;
}
