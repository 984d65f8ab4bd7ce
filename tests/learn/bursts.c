// Bursts of which one object in fifty stays, told apart by the function that called the wrapper of
// malloc. Goes on until those that stay lie on pages without the others, and says "apart"; after 20
// s it says "mixed", with "brief" after half a second. With "many", four threads do that at once.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSize = 500, kBurst = 60000, kEvery = 50, kKept = kBurst / kEvery };

static void* Filled(void* p) { return memset(p, 1, kSize); }

__attribute__((noinline)) static void* Wrapper(void) {
  void* volatile p = malloc(kSize);
  return Filled(p);
}
__attribute__((noinline)) static void* Passing(void) {
  void* volatile p = Wrapper();
  return p;
}
__attribute__((noinline)) static void* Staying(void) {
  void* volatile p = Wrapper();
  return p;
}

static double Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ByAddress(const void* a, const void* b) {
  const uintptr_t x = *(const uintptr_t*)a, y = *(const uintptr_t*)b;
  return (x > y) - (x < y);
}

// How many of the kept share their 8 KiB with one of the others.
static int Mixed(void** kept, void** others, int n) {
  uintptr_t* pages = malloc((size_t)n * sizeof(*pages));
  for (int i = 0; i < n; ++i) pages[i] = (uintptr_t)others[i] / 8192;
  qsort(pages, (size_t)n, sizeof(pages[0]), ByAddress);
  int mixed = 0;
  for (int i = 0; i < kKept; ++i) {
    const uintptr_t page = (uintptr_t)kept[i] / 8192;
    mixed += bsearch(&page, pages, (size_t)n, sizeof(pages[0]), ByAddress) != NULL;
  }
  free(pages);
  return mixed;
}

static double g_seconds = 20;

static int GetApart(void) {
  static __thread void** others;
  if (others == NULL) others = malloc(kBurst * sizeof(*others));
  const double end = Now() + g_seconds;
  while (Now() < end) {
    void** kept = malloc(kKept * sizeof(*kept));
    int n = 0, stays = 0;
    for (int i = 0; i < kBurst; ++i) {
      if (i % kEvery == 0) {
        kept[stays++] = Staying();
      } else {
        others[n++] = Passing();
      }
    }
    const int mixed = Mixed(kept, others, n);
    for (int i = 0; i < n; ++i) {
      if (*(char*)others[i] != 1) abort();
      free(others[i]);
    }
    if (mixed < kKept / 20) return 1;
  }
  return 0;
}

static void* Run(void* unused) {
  (void)unused;
  return (void*)(intptr_t)GetApart();
}

int main(int argc, char** argv) {
  const int threads = argc > 1 && strcmp(argv[1], "many") == 0 ? 4 : 1;
  if (argc > 1 && strcmp(argv[1], "brief") == 0) g_seconds = 0.5;
  pthread_t thread[4];
  int apart = 1;
  for (int i = 0; i < threads; ++i) pthread_create(&thread[i], NULL, Run, NULL);
  for (int i = 0; i < threads; ++i) {
    void* result;
    pthread_join(thread[i], &result);
    apart &= result != NULL;
  }
  puts(apart ? "apart" : "mixed");
  return 0;
}
