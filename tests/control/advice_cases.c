// Programs that waste memory or time in one way each, and, with a second argument, the same
// programs as the report's advice wants them. Each says "ready" and goes on as it is.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMiB = 1 << 20 };
static void* volatile g_sink;

static void Ready(void) {
  puts("ready");
  fflush(stdout);
}

__attribute__((noinline)) void* MakeSession(size_t size) { return memset(malloc(size), 1, size); }
__attribute__((noinline)) void* MakeRequest(size_t size) { return memset(malloc(size), 2, size); }

// One in eight objects outlives the burst, and lies between others unless it comes first.
static void Pinned(int followed) {
  enum { kKept = 12000 };
  static void* kept[kKept];
  static void* gone[7 * kKept];
  for (int i = 0; followed && i < kKept; ++i) kept[i] = MakeSession(1000);
  for (int i = 0; i < kKept; ++i) {
    for (int j = 0; j < 7; ++j) gone[7 * i + j] = MakeRequest(1000);
    if (!followed) kept[i] = MakeSession(1000);
  }
  for (int i = 0; i < 7 * kKept; ++i) free(gone[i]);
  g_sink = kept;
  Ready();
  pause();
}

// All objects are a little larger than a size on offer.
static void Slack(int followed) {
  size_t worst = 0, most = 0;
  for (size_t size = 2000; size < 8000; size += 16) {
    void* p = malloc(size);
    const size_t slack = 100 * (malloc_usable_size(p) - size) / size;
    free(p);
    if (slack > most) worst = size, most = slack;
  }
  if (followed) --worst;
  for (void* p = malloc(worst); followed && malloc_usable_size(p) > worst; p = malloc(--worst))
    free(p);
  void** before = NULL;
  for (size_t i = 0; i < 20000; ++i) {
    void** p = memset(malloc(worst), 1, worst);
    *p = before;
    before = p;
  }
  g_sink = before;
  Ready();
  pause();
}

__attribute__((noinline)) void* LoseRecord(size_t size) { return memset(malloc(size), 1, size); }

static void Leak(int followed) {
  for (int i = 0;; ++i) {
    void* p = LoseRecord(100000);
    g_sink = p;
    if (followed) free(p);
    if (i == 600) Ready();
    if (i >= 600) usleep(5000);
  }
}

// Frees and takes so much at once that caches fill, or miss.
static void Swing(size_t n, size_t size) {
  void** v = calloc(n, sizeof *v);
  void* stays = memset(malloc(30 * kMiB), 1, 30 * kMiB);
  g_sink = stays;
  for (int round = 0;; ++round) {
    // Of many sizes, if none is given: a cache keeps only so much of one.
    for (size_t i = 0; i < n; ++i) v[i] = malloc(size != 0 ? size : 1000 + i % 64 * 240);
    for (size_t i = 0; i < n; ++i) free(v[i]);
    if (round == 10) Ready();
    if (round > 10) usleep(1000);
  }
}

int main(int argc, char** argv) {
  const char* name = argv[1];
  const int n = argc > 2 ? atoi(argv[2]) : 0;
  if (!strcmp(name, "pinned")) Pinned(n);
  if (!strcmp(name, "slack")) Slack(n);
  if (!strcmp(name, "leak")) Leak(n);
  if (!strcmp(name, "swing")) Swing((size_t)n, (size_t)atoi(argv[3]));
  return 2;
}
