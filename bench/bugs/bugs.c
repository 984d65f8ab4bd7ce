// 44 small memory bugs, one a run: `bugs NUMBER` makes it, `bugs` lists them as NUMBER KIND
// WHAT. A bug that nobody notices ends with status 0. Read by strata_bench/bugs.py.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* volatile g_kept[4096];

static void* Hide(const void* p) {
  __asm__ volatile("" : "+r"(p));
  return (void*)p;
}
static char* New(size_t size) {
  char* p = malloc(size);
  if (p == NULL) exit(9);
  memset(p, 0x11, size);
  return Hide(p);
}
static void Churn(size_t size, int n) {
  for (int i = 0; i < n; ++i) g_kept[i] = memset(malloc(size), 0x22, size);
  for (int i = 0; i < n; ++i) free(g_kept[i]);
}
static void Write(char* p, int n) {
  for (volatile char* at = p; n-- > 0;) *at++ = 1;
}
static void Read(const char* p) { g_kept[0] = (void*)(uintptr_t)*(volatile const unsigned char*)p; }
static void* FreeIt(void* p) {
  free(p);
  return NULL;
}

static void DoubleAtOnce(size_t size) {
  char* p = New(size);
  free(p);
  free(Hide(p));
  Churn(size, 100);
}
static void DoubleAfter(size_t size, int n) {
  char* p = New(size);
  for (int i = 0; i < n; ++i) g_kept[i] = malloc(size);
  free(p);
  for (int i = 0; i < n; ++i) free(g_kept[i]);
  free(Hide(p));
  Churn(size, 100);
}
static void DoubleByThread(size_t size) {
  pthread_t thread;
  char* p = New(size);
  free(p);
  pthread_create(&thread, NULL, FreeIt, Hide(p));
  pthread_join(thread, NULL);
  Churn(size, 100);
}
static void Inside(size_t size, size_t at) {
  char* p = New(size);
  free(Hide(p + at));
  Churn(size, 100);
}
static void Over(size_t size, ptrdiff_t at, int n) {
  char* q = New(size);
  char* p = New(size);
  char* r = New(size);
  Write((char*)Hide(p) + at, n);
  free(r);
  free(p);
  free(q);
  Churn(size, 100);
}
static void Use(size_t size, size_t at, int writes, int others) {
  char* p = New(size);
  free(p);
  if (others != 0) Churn(size, others);
  writes ? Write((char*)Hide(p) + at, 8) : Read((char*)Hide(p) + at);
  Churn(size, size < 10000 ? 2000 : 20);
}

#define BUGS(B)                                                                     \
  B("double free", "at once, 24 bytes", DoubleAtOnce(24))                           \
  B("double free", "at once, 400 bytes", DoubleAtOnce(400))                         \
  B("double free", "at once, 5,000 bytes", DoubleAtOnce(5000))                      \
  B("double free", "at once, 1 MiB", DoubleAtOnce(1 << 20))                         \
  B("double free", "after one other, 24 bytes", DoubleAfter(24, 1))                 \
  B("double free", "after one other, 400 bytes", DoubleAfter(400, 1))               \
  B("double free", "after 100 others, 24 bytes", DoubleAfter(24, 100))              \
  B("double free", "after 2,000 others, 24 bytes", DoubleAfter(24, 2000))           \
  B("double free", "after 2,000 others, 400 bytes", DoubleAfter(400, 2000))         \
  B("double free", "by another thread, 24 bytes", DoubleByThread(24))               \
  B("double free", "by another thread, 400 bytes", DoubleByThread(400))             \
  B("double free", "by realloc, 60 bytes", {                                        \
    char* p = New(60);                                                              \
    free(p);                                                                        \
    free(realloc(Hide(p), 4000));                                                   \
  })                                                                                \
  B("invalid free", "8 bytes inside 24", Inside(24, 8))                             \
  B("invalid free", "16 bytes inside 400", Inside(400, 16))                         \
  B("invalid free", "1,024 bytes inside 3,000", Inside(3000, 1024))                 \
  B("invalid free", "a page inside 100,000", Inside(100000, 4096))                  \
  B("invalid free", "of the stack", {                                               \
    char here[64] __attribute__((aligned(16))) = {0};                               \
    free(Hide(here));                                                               \
  })                                                                                \
  B("invalid free", "of a static variable", {                                       \
    static char here[64] __attribute__((aligned(16)));                              \
    free(Hide(here));                                                               \
  })                                                                                \
  B("invalid free", "realloc of 16 bytes inside 400", {                             \
    char* p = New(400);                                                             \
    g_kept[0] = realloc(Hide(p + 16), 900);                                         \
    Churn(400, 100);                                                                \
  })                                                                                \
  B("overflow", "1 byte behind 24", Over(24, 24, 1))                                \
  B("overflow", "1 byte behind 41", Over(41, 41, 1))                                \
  B("overflow", "1 byte behind 400", Over(400, 400, 1))                             \
  B("overflow", "8 bytes behind 24", Over(24, 24, 8))                               \
  B("overflow", "8 bytes behind 40", Over(40, 40, 8))                               \
  B("overflow", "8 bytes behind 1,000", Over(1000, 1000, 8))                        \
  B("overflow", "64 bytes behind 256", Over(256, 256, 64))                          \
  B("overflow", "a page behind 100", Over(100, 100 + 4096, 8))                      \
  B("overflow", "1 byte behind 100,001", Over(100001, 100001, 1))                   \
  B("overflow", "a page behind 1 MiB", Over(1 << 20, (1 << 20) + 4096, 8))          \
  B("overflow", "read 8 bytes behind 64", {                                         \
    char* p = New(64);                                                              \
    Read((char*)Hide(p) + 72);                                                      \
    free(p);                                                                        \
  })                                                                                \
  B("underflow", "1 byte before 100", Over(100, -1, 1))                             \
  B("underflow", "8 bytes before 24", Over(24, -8, 8))                              \
  B("underflow", "8 bytes before 400", Over(400, -8, 8))                            \
  B("underflow", "16 bytes before 40", Over(40, -16, 16))                           \
  B("underflow", "8 bytes before 300,000", Over(300000, -8, 8))                     \
  B("use after free", "write at once, to the start of 64", Use(64, 0, 1, 0))        \
  B("use after free", "write at once, inside of 64", Use(64, 32, 1, 0))             \
  B("use after free", "write at once, inside of 2,000", Use(2000, 1000, 1, 0))      \
  B("use after free", "write at once, inside of 100,000", Use(100000, 50000, 1, 0)) \
  B("use after free", "read at once, of 64", Use(64, 32, 0, 0))                     \
  B("use after free", "read of 1 MiB", Use(1 << 20, 5000, 0, 0))                    \
  B("use after free", "write after 10 others, to 64", Use(64, 32, 1, 10))           \
  B("use after free", "write to the old place after realloc", {                     \
    char* p = New(64);                                                              \
    g_kept[4095] = realloc(p, 2000);                                                \
    Write((char*)Hide(p) + 32, 4);                                                  \
    free(g_kept[4095]);                                                             \
    Churn(64, 2000);                                                                \
  })                                                                                \
  B("use after free", "read by another's pointer after 10 others, of 400", Use(400, 100, 0, 10))

int main(int argc, char** argv) {
  int number = 0;
  const int wanted = argc > 1 ? atoi(argv[1]) : 0;
#define ONE(kind, what, ...)                                   \
  ++number;                                                    \
  if (wanted == 0) printf("%d\t%s\t%s\n", number, kind, what); \
  if (wanted == number) {                                      \
    __VA_ARGS__;                                               \
  }
  BUGS(ONE)
  return 0;
}
