// Work for an allocator behind a strict allowlist: only what glibc's malloc and plain input and
// output need is allowed, anything else ends the process.
//   strict CASE     prints "done"; the filter's own kill is SIGSYS
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "allowlist.h"

enum { kSmallBlocks = 150000, kLargeBlocks = 160, kLarge = 2 << 20, kRounds = 2 };
enum { kUntouched = 64 << 20 };
enum { kWaitMs = 1500, kThreads = 4 };

// getrandom: glibc's first malloc draws a key. The last two are what it uses where it may and does
// without where it must.
static const int kCalls[] = {
    SYS_read, SYS_write,      SYS_brk,          SYS_mmap,      SYS_munmap,  SYS_mprotect, SYS_futex,
    SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_getrandom, SYS_madvise, SYS_mremap,
};
enum { kAll = sizeof(kCalls) / sizeof(kCalls[0]), kWithoutAdvice = kAll - 2 };

// And what the start of a program and of a thread takes, in a filter that is there before; gettid
// is what the library's thread asks.
static const int kCallsFromTheStart[] = {
    SYS_execve,       SYS_openat,         SYS_newfstatat,
    SYS_fstat,        SYS_pread64,        SYS_close,
    SYS_access,       SYS_arch_prctl,     SYS_set_tid_address,
    SYS_rseq,         SYS_prlimit64,      SYS_clone3,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_set_robust_list,
    SYS_gettid,       SYS_read,           SYS_write,
    SYS_brk,          SYS_mmap,           SYS_munmap,
    SYS_mprotect,     SYS_futex,          SYS_exit,
    SYS_exit_group,   SYS_getrandom,      SYS_madvise,
    SYS_mremap,       SYS_rt_sigreturn,
};

static void Say(const char* text) {
  if (write(1, text, strlen(text)) < 0) _exit(3);
}

static void Fail(const char* what) {
  if (write(2, what, strlen(what)) < 0) _exit(3);
  _exit(1);
}

// As realloc does without mremap, which is not on every list.
static void Grow(char** block, size_t fill) {
  char* grown = malloc(kLarge);
  if (grown == NULL) Fail("no larger block\n");
  memcpy(grown, *block, kLarge / 2);
  memset(grown + kLarge / 2, (int)fill, kLarge / 2);
  free(*block);
  *block = grown;
}

// Small and large blocks up to some hundred MiB, grown and shrunk, and all of it given back.
static void Churn(unsigned seed, size_t share) {
  static _Thread_local void* small[kSmallBlocks];
  static _Thread_local char* large[kLargeBlocks];
  const size_t n_small = kSmallBlocks / share;
  const size_t n_large = kLargeBlocks / share;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < n_small; ++i) {
      seed = seed * 1664525 + 1013904223;
      const size_t size = 1 + (seed >> 8) % (i % 50 == 0 ? 40000 : 900);
      small[i] = malloc(size);
      if (small[i] == NULL) Fail("no small block\n");
      memset(small[i], (int)i, size);
    }
    for (size_t i = 0; i < n_large; ++i) {
      large[i] = malloc(kLarge / 2);
      if (large[i] == NULL) Fail("no large block\n");
      memset(large[i], (int)i, kLarge / 2);
      if (i % 4 == 0) Grow(&large[i], i);
    }
    for (size_t i = 0; i < n_small; ++i) {
      if (*(unsigned char*)small[i] != (unsigned char)i) Fail("a small block changed\n");
      free(small[i]);
    }
    for (size_t i = 0; i < n_large; ++i) {
      if (large[i][kLarge / 2 - 1] != (char)i) Fail("a large block changed\n");
      free(large[i]);
    }
  }
}

// Waits without a system call, allocating now and then: the clock is read in the vDSO.
static void Linger(void) {
  struct timespec begin;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    char* block = malloc(100000);
    if (block == NULL) Fail("no block while waiting\n");
    block[0] = 1;
    free(block);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < kWaitMs);
}

static void Install(size_t n, unsigned flags) {
  if (AllowOnly(kCalls, n, flags, SECCOMP_RET_KILL_PROCESS) != 0) Fail("no filter\n");
}

static atomic_int g_ready;
static atomic_int g_go;
static atomic_int g_done;
static int g_filter_in_each;  // each thread installs the filter for itself

static void* Work(void* number) {
  free(malloc(100));
  atomic_fetch_add(&g_ready, 1);
  while (atomic_load(&g_go) == 0) {
  }
  if (g_filter_in_each) Install(kAll, 0);
  Churn((unsigned)(uintptr_t)number, kThreads);
  atomic_fetch_add(&g_done, 1);
  while (atomic_load(&g_go) == 1) {
  }
  return NULL;
}

// Threads from before the filter work behind it.
static void WithThreads(unsigned flags, int in_each) {
  pthread_t threads[kThreads];
  mallopt(M_ARENA_MAX, 1);  // glibc's further arenas read files of /proc and /sys
  g_filter_in_each = in_each;
  for (uintptr_t i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], NULL, Work, (void*)i) != 0) Fail("no thread\n");
  }
  while (atomic_load(&g_ready) != kThreads) {
  }
  Install(kAll, flags);
  atomic_store(&g_go, 1);
  Churn(77, kThreads);
  while (atomic_load(&g_done) != kThreads) {
  }
  Linger();
}

// A server's way: it has lived and grown before it locks itself in.
static void AfterGrowth(void) {
  Churn(5, 2);
  const struct timespec second = {1, 500000000};
  nanosleep(&second, NULL);
  Install(kAll, 0);
  Churn(6, 1);
  Linger();
}

// A server's way from its start, in filters that are there already: bursts of work and rest.
static void Serve(void) {
  for (int burst = 0; burst < 6; ++burst) {
    Churn((unsigned)burst, 8);
    const struct timespec rest = {0, 300000000};
    nanosleep(&rest, NULL);
  }
}

static void* Return(void* nothing) { return nothing; }

// Once it has had a thread, blocks are guarded.
static void FilteredWithThreads(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Return, NULL) != 0) Fail("no thread\n");
  pthread_join(thread, NULL);
  Churn(1, 1);
}

// What glibc answers without a call to the kernel, but for the lines of malloc_stats and the advice
// of malloc_trim.
static void Ask(void) {
  char* block = malloc(kLarge);
  memset(block, 1, kLarge);
  if (mallinfo2().arena + mallinfo2().hblkhd < kLarge) Fail("mallinfo2 knows no such heap\n");
  char* text;
  size_t length;
  FILE* out = open_memstream(&text, &length);
  if (malloc_info(0, out) != 0 || fclose(out) != 0) Fail("no malloc_info\n");
  free(text);
  free(block);
  malloc_trim(0);
  malloc_stats();
}

// Most of it is never written.
static void TakeAndTouchLittle(void) {
  static char* volatile block;
  block = malloc(kUntouched);
  if (block == NULL) Fail("no large block\n");
  memset(block, 1, kLarge);
}

static void SendErrorsNowhere(void) {
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere < 0 || dup2(nowhere, 2) != 2) Fail("no /dev/null\n");
}

static void StartInFilter(char* program, const char* name) {
  const size_t n = sizeof(kCallsFromTheStart) / sizeof(kCallsFromTheStart[0]);
  if (AllowOnly(kCallsFromTheStart, n, 0, SECCOMP_RET_KILL_PROCESS) != 0) Fail("no filter\n");
  execl(program, program, name, NULL);
  Fail("no program\n");
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  if (strcmp(name, "all") == 0 || strcmp(name, "without_advice") == 0) {
    Install(strcmp(name, "all") == 0 ? kAll : kWithoutAdvice, 0);
    Churn(1, 1);
    Linger();
  } else if (strcmp(name, "filtered_by_another") == 0) {
    Churn(1, 1);
    Linger();
  } else if (strcmp(name, "from_the_start") == 0) {
    StartInFilter(argv[0], "filtered_with_threads");
  } else if (strcmp(name, "asks") == 0) {
    SendErrorsNowhere();
    Install(kAll, 0);
    Ask();
  } else if (strcmp(name, "asks_from_the_start") == 0) {
    SendErrorsNowhere();
    StartInFilter(argv[0], "filtered_asks");
  } else if (strcmp(name, "filtered_asks") == 0) {
    Ask();
  } else if (strcmp(name, "no_new_privs") == 0) {
    TakeAndTouchLittle();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("no NO_NEW_PRIVS\n");
  } else if (strcmp(name, "prints") == 0) {
    TakeAndTouchLittle();
    Install(kAll, 0);
    malloc_stats();
  } else if (strcmp(name, "filtered_with_threads") == 0) {
    FilteredWithThreads();
  } else if (strcmp(name, "service") == 0) {
    Serve();
  } else if (strcmp(name, "threads") == 0) {
    WithThreads(0, 0);
  } else if (strcmp(name, "threads_tsync") == 0) {
    WithThreads(SECCOMP_FILTER_FLAG_TSYNC, 0);
  } else if (strcmp(name, "threads_each") == 0) {
    WithThreads(0, 1);
  } else if (strcmp(name, "after_growth") == 0) {
    AfterGrowth();
  } else {
    Fail("which case?\n");
  }
  Say("done\n");
  exit(0);
}
