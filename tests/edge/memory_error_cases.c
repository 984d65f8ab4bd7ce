// Memory errors, a bug a case, as small programs make them. test_memory_errors.py says which are
// found by default, with STRATA_GUARD=1/1 and with STRATA_CHECK=on. A case that is not found ends
// well. Also: what programs may do with blocks that are watched (the cases that begin with "ok_").
#include "case.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Kept from the compiler, so that it neither warns nor drops anything.
static void* volatile g_kept[4096];

static char* New(size_t size) {
  char* p = (char*)malloc(size);
  CHECK(p != NULL);
  return (char*)HidePointer(p);
}

static void Churn(size_t size, int n) {
  for (int i = 0; i < n; ++i) g_kept[i] = malloc(size);
  for (int i = 0; i < n; ++i) free(g_kept[i]);
}

static void* FreeIt(void* p) {
  free(p);
  return NULL;
}

static void DoubleAtOnce(size_t size) {
  char* p = New(size);
  free(p);
  free(HidePointer(p));
}
static void DoubleAfterOne(size_t size) {
  char* p = New(size);
  char* other = New(size);
  free(p);
  free(other);
  free(HidePointer(p));
}
static void DoubleAfterMany(size_t size, int n) {
  char* p = New(size);
  for (int i = 0; i < n; ++i) g_kept[i] = malloc(size);
  free(p);
  for (int i = 0; i < n; ++i) free(g_kept[i]);
  free(HidePointer(p));
}
static void DoubleByThread(size_t size) {
  pthread_t thread;
  char* p = New(size);
  free(p);
  CHECK(pthread_create(&thread, NULL, FreeIt, HidePointer(p)) == 0);
  pthread_join(thread, NULL);
}

CASE(double_at_once_24) { DoubleAtOnce(24); }
CASE(double_at_once_8) { DoubleAtOnce(8); }
CASE(double_at_once_400) { DoubleAtOnce(400); }
CASE(double_at_once_3000) { DoubleAtOnce(3000); }
CASE(double_at_once_100000) { DoubleAtOnce(100000); }
CASE(double_after_one_8) { DoubleAfterOne(8); }
CASE(double_after_one_24) { DoubleAfterOne(24); }
CASE(double_after_one_400) { DoubleAfterOne(400); }
CASE(double_after_one_3000) { DoubleAfterOne(3000); }
CASE(double_after_one_100000) { DoubleAfterOne(100000); }
CASE(double_after_2000_8) { DoubleAfterMany(8, 2000); }
CASE(double_after_2000_24) { DoubleAfterMany(24, 2000); }
CASE(double_after_2000_400) { DoubleAfterMany(400, 2000); }
CASE(double_after_2000_3000) { DoubleAfterMany(3000, 2000); }
CASE(large_twice_between_live_ones) {
  char* blocks[3];
  for (int i = 0; i < 3; ++i) blocks[i] = New(1 << 20);
  free(blocks[1]);
  free(HidePointer(blocks[1]));
}
CASE(double_by_thread_24) { DoubleByThread(24); }
CASE(double_by_thread_400) { DoubleByThread(400); }
CASE(double_other_way_round) {
  char* p = New(48);
  char* q = New(48);
  free(p);
  free(q);
  free(HidePointer(q));
}
CASE(double_of_realloc) {
  char* p = New(60);
  free(p);
  free(realloc(HidePointer(p), 4000));
}
CASE(double_of_realloc_in_place) {
  char* p = New(60);
  free(p);
  free(realloc(HidePointer(p), 58));
}
// The block that comes back is kept, so that nothing but the realloc can tell.
static void KeepReallocOfFreed(size_t size, size_t to) {
  char* p = New(size);
  free(p);
  g_kept[0] = realloc(HidePointer(p), to);
}
CASE(double_by_realloc_that_stays) { KeepReallocOfFreed(60, 58); }
CASE(double_by_realloc_that_stays_100000) { KeepReallocOfFreed(100000, 99000); }
// The larger block may be cut from what the freed one gives back.
CASE(double_by_realloc_that_grows_100000) { KeepReallocOfFreed(100000, 200000); }
CASE(double_by_second_realloc) {
  char* p = New(1000);
  g_kept[0] = realloc(p, 5000);
  g_kept[1] = realloc(HidePointer(p), 1000);
}
// Frees of so many blocks in no order wait for memory, and then few are looked at.
static char* NewAfterColdFrees(void) {
  enum { kBlocks = 40000, kStep = 10007 };
  static char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) blocks[i] = New(700);
  for (int i = 0, at = 0; i < kBlocks / 2; ++i, at = (at + kStep) % kBlocks) free(blocks[at]);
  return New(700);
}
CASE(double_of_the_last_after_cold_frees) {
  char* p = NewAfterColdFrees();
  free(p);
  free(HidePointer(p));
}
CASE(double_by_realloc_after_cold_frees) {
  char* p = NewAfterColdFrees();
  free(p);
  g_kept[0] = realloc(HidePointer(p), 690);
}
CASE(double_of_aligned) {
  char* p = (char*)HidePointer(aligned_alloc(64, 192));
  char* q = (char*)HidePointer(aligned_alloc(64, 192));
  free(p);
  free(q);
  free(HidePointer(p));
}
// By the second thread after the first's frees have gone down.
CASE(double_from_below) {
  static void* blocks[20000];
  for (int i = 0; i < 20000; ++i) blocks[i] = malloc(64);
  for (int i = 0; i < 20000; ++i) free(blocks[i]);
  free(HidePointer(blocks[100]));
  free(HidePointer(blocks[19000]));
}

CASE(inside_24) { free(HidePointer(New(24) + 8)); }
CASE(inside_400) { free(HidePointer(New(400) + 16)); }
CASE(inside_3000) { free(HidePointer(New(3000) + 1024)); }
CASE(inside_100000) { free(HidePointer(New(100000) + 4096)); }
CASE(inside_1MiB) { free(HidePointer(New(1 << 20) + (1 << 19))); }
CASE(inside_1MiB_realloc) { g_kept[0] = realloc(HidePointer(New(1 << 20) + 64), 100); }
CASE(inside_realloc) { g_kept[0] = realloc(HidePointer(New(400) + 16), 500); }
CASE(inside_realloc_in_place) { g_kept[0] = realloc(HidePointer(New(400) + 16), 390); }
CASE(foreign_stack) {
  char here[64] __attribute__((aligned(16)));
  free(HidePointer(here));
}
CASE(foreign_realloc) {
  static char here[64] __attribute__((aligned(16)));
  g_kept[0] = realloc(HidePointer(here), 100);
}

// Written with 1, which is no byte of any pattern.
static void Write(char* p, size_t n) {
  volatile char* at = p;
  for (size_t i = 0; i < n; ++i) at[i] = 1;
}
CASE(overflow_8) {
  char* p = New(40);
  Write(p + 40, 8);
  free(p);
}
CASE(overflow_1) {
  char* p = New(41);
  Write(p + 41, 1);
  free(p);
}
CASE(overflow_1_of_16) {
  char* p = New(16);
  Write(p + 16, 1);
  free(p);
}
CASE(overflow_page) {
  char* p = New(100);
  Write(p + 100 + 4096, 1);
  free(p);
}
CASE(overflow_by_read) {
  volatile char* p = New(64);
  g_kept[0] = (void*)(uintptr_t)(unsigned char)p[64 + 4096];
  free((void*)p);
}
CASE(overflow_of_realloc) {
  char* p = (char*)HidePointer(realloc(New(20), 72));
  Write(p + 72, 8);
  free(p);
}
CASE(overflow_of_calloc) {
  char* p = (char*)HidePointer(calloc(9, 8));
  Write(p + 72, 8);
  free(p);
}
CASE(underflow_8) {
  char* p = New(40);
  Write(p - 8, 8);
  free(p);
}
CASE(underflow_1) {
  char* p = New(100);
  Write(p - 1, 1);
  free(p);
}
CASE(use_after_free_write) {
  char* p = New(64);
  free(p);
  Write((char*)HidePointer(p) + 16, 8);
  Churn(64, 4000);
}
// Where errors are ignored the program finds what it had written.
CASE(forgiven_read) {
  char* p = New(64);
  Write(p, 1);
  const char was = *(volatile char*)p;
  free(p);
  CHECK(*(volatile char*)HidePointer(p) == was);
}
CASE(use_after_free_read) {
  char* p = New(64);
  Write(p, 64);
  free(p);
  g_kept[1] = (void*)(uintptr_t)*((volatile unsigned char*)HidePointer(p) + 16);
}
CASE(use_after_realloc) {
  char* p = New(64);
  g_kept[0] = realloc(p, 2000);
  Write((char*)HidePointer(p) + 32, 4);
  free(g_kept[0]);
  Churn(64, 4000);
}
// The same of large blocks.
CASE(overflow_1_of_100001) {
  char* p = New(100001);
  Write(p + 100001, 1);
  free(p);
}
CASE(overflow_page_of_1MiB) {
  char* p = New(1 << 20);
  Write(p + (1 << 20) + 4096, 1);
  free(p);
}
CASE(overflow_of_large_realloc) {
  char* p = (char*)HidePointer(realloc(New(300000), 500000));
  Write(p + 500000, 1);
  free(p);
}
CASE(overflow_of_large_calloc) {
  char* p = (char*)HidePointer(calloc(3, 100000));
  Write(p + 300000, 1);
  free(p);
}
CASE(overflow_of_large_aligned) {
  char* p = (char*)HidePointer(aligned_alloc(1 << 21, 3 << 20));
  CHECK(p != NULL && (uintptr_t)p % (1 << 21) == 0);
  Write(p + (3 << 20), 1);
  free(p);
}
CASE(underflow_8_of_300000) {
  char* p = New(300000);
  Write(p - 8, 8);
  free(p);
}
CASE(use_after_free_write_100000) {
  char* p = New(100000);
  free(p);
  Write((char*)HidePointer(p) + 50000, 8);
}
CASE(use_after_free_read_1MiB) {
  char* p = New(1 << 20);
  Write(p, 1 << 20);
  free(p);
  g_kept[1] = (void*)(uintptr_t)*((volatile unsigned char*)HidePointer(p) + 5000);
}
CASE(use_after_large_realloc) {
  char* p = New(300000);
  g_kept[0] = realloc(p, 500000);
  Write((char*)HidePointer(p) + 32, 4);
  free(g_kept[0]);
}
CASE(overflow_never_freed) {
  char* p = New(40);
  Write(p + 40, 8);
  g_kept[0] = p;
}

// --- What is right stays right.

CASE(ok_contents) {
  static const size_t kSizes[] = {0, 1, 7, 8, 16, 24, 100, 1000, 4095, 4096, 4097, 70000, 300000};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    const size_t size = kSizes[i];
    for (int round = 0; round < 50; ++round) {
      unsigned char* p = (unsigned char*)malloc(size);
      CHECK_AT(p != NULL && (uintptr_t)p % 8 == 0, size);
      CHECK_AT(size < 16 || (uintptr_t)p % 16 == 0, size);
      CHECK_AT(malloc_usable_size(p) >= size, size);
      memset(p, round, malloc_usable_size(p));
      unsigned char* q = (unsigned char*)realloc(p, size + 33);
      CHECK_AT(q != NULL && (size == 0 || (q[0] == round && q[size - 1] == round)), size);
      free(q);
      q = (unsigned char*)calloc(1, size + 1);
      CHECK_AT(q != NULL, size);
      for (size_t k = 0; k <= size; ++k) CHECK_AT(q[k] == 0, size);
      free(q);
    }
  }
  for (size_t align = 32; align <= 1 << 16; align *= 2) {
    void* p = NULL;
    CHECK_AT(posix_memalign(&p, align, 100) == 0 && (uintptr_t)p % align == 0, align);
    memset(p, 1, malloc_usable_size(p));
    p = realloc(p, 50);
    CHECK(p != NULL && *(char*)p == 1);
    free(p);
  }
}
static void ForkWith(size_t size) {
  char* p = New(size);
  memset(p, 7, size);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(p[size - 1] == 7);
      free(p);
      Churn(100, 50);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  CHECK(p[0] == 7 && p[size - 1] == 7);
  free(p);
}
CASE(ok_fork) {
  ForkWith(100);
  ForkWith(300000);
}
// Each takes the place of one that was full of something else.
CASE(ok_large) {
  for (int i = 0; i < 200; ++i) {
    const size_t size = 270000 + (size_t)(i % 7) * 50000;
    unsigned char* p = (unsigned char*)calloc(size, 1);
    CHECK(p != NULL && (uintptr_t)p % 16 == 0 && malloc_usable_size(p) >= size);
    for (size_t at = 0; at < size; at += 1000) CHECK_AT(p[at] == 0, at);
    CHECK(p[size - 1] == 0);
    memset(p, i | 1, size);
    p = (unsigned char*)realloc(p, 2 * size);
    CHECK(p != NULL && p[0] == (unsigned char)(i | 1) && p[size - 1] == p[0]);
    p = (unsigned char*)realloc(p, size / 2);
    CHECK(p != NULL && p[size / 2 - 1] == (unsigned char)(i | 1));
    g_kept[i % 40] = (free(g_kept[i % 40]), p);
  }
  for (size_t align = 32; align <= 1 << 22; align *= 2) {
    char* p = (char*)aligned_alloc(align, align < 300000 ? 300000 / align * align : align);
    CHECK_AT(p != NULL && (uintptr_t)p % align == 0, align);
    memset(p, 1, 100000);
    free(p);
  }
}
static void* ChurnAll(void* seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  void* mine[64] = {0};
  for (int i = 0; i < 20000; ++i) {
    state = state * 1103515245 + 12345;
    const unsigned at = state >> 16 & 63;
    free(mine[at]);
    const size_t size = state >> 8 & 511;
    mine[at] = malloc(size);
    memset(mine[at], (int)at, size);
  }
  for (int i = 0; i < 64; ++i) free(mine[i]);
  return NULL;
}
CASE(ok_threads) {
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, ChurnAll, (void*)(i + 1)) == 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

// Says how many pages of freed blocks have memory.
CASE(pages_of_freed_blocks) {
  enum { kBlocks = 200 };
  Churn(100, kBlocks);
  int pages = 0;
  for (int i = 0; i < kBlocks; ++i) {
    unsigned char present = 0;
    void* page = (void*)((uintptr_t)g_kept[i] & ~(uintptr_t)4095);
    pages += mincore(page, 4096, &present) == 0 && (present & 1) != 0;
  }
  printf("%d\n", pages);
}

// Says how many pages have memory and how many mappings there are more than before, when 200 large
// blocks live and when they are freed.
static size_t Mappings(void) {
  char line[4096];
  size_t n = 0;
  FILE* file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) ++n;
  fclose(file);
  return n;
}
CASE(large_blocks) {
  enum { kBlocks = 200, kSize = 100000 };
  free(malloc(kSize));
  const size_t before = Mappings();
  for (int i = 0; i < kBlocks; ++i) memset(g_kept[i] = malloc(kSize), 1, kSize);
  printf("%zd ", (ssize_t)(Mappings() - before));
  for (int i = 0; i < kBlocks; ++i) free(g_kept[i]);
  int pages = 0;
  for (int i = 0; i < kBlocks; ++i) {
    unsigned char present[kSize / 4096] = {0};
    void* start = (void*)((uintptr_t)g_kept[i] & ~(uintptr_t)4095);
    if (mincore(start, sizeof present * 4096, present) != 0) continue;
    for (size_t k = 0; k < sizeof present; ++k) pages += present[k] & 1;
  }
  printf("%d %zd\n", pages, (ssize_t)(Mappings() - before));
}
// Until one is guarded, which no whole pages are added to.
CASE(large_by_turns) {
  enum { kSize = 300000 };
  for (size_t size = 0; size != kSize && clock() < 10 * CLOCKS_PER_SEC;) {
    void* p = HidePointer(malloc(kSize));
    size = malloc_usable_size(p);
    free(p);
  }
}
// Touched, and live at the end.
CASE(large_at_exit) { memset(g_kept[0] = malloc(16 << 20), 1, 16 << 20); }
// As many MiB as there are for it.
CASE(large_until_null) {
  int n = 0;
  while (n < 512 && (g_kept[n] = malloc(1 << 20)) != NULL) memset(g_kept[n++], 1, 1 << 20);
  printf("%d\n", n);
}

// An error in a signal handler that interrupts the allocator at work, often with a lock of its own:
// the message must not wait for that.
static char* g_watched;
static void OnAlarm(int signal) {
  (void)signal;
  Write(g_watched, 4097);
}
CASE(in_a_handler) {
  g_watched = New(16);
  CHECK(signal(SIGALRM, OnAlarm) != SIG_ERR);
  const struct itimerval soon = {.it_value = {.tv_usec = 3000}};
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  for (;;) {
    for (size_t size = 5000; size < 400000; size *= 2) Churn(size, 8);
  }
}
