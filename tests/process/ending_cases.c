// The beginning and the end of a process: constructors and destructors that allocate, the ways to
// exit, and main leaving by pthread_exit, each with the library's background thread at work.
// Each case ends with status 7 unless it says otherwise.
#include "../edge/case.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { kStatus = 7, kBlocks = 30000 };

static char* early;
static int in_handler;  // where nobody may allocate

__attribute__((constructor(101))) static void AllocateEarly(void) {
  early = (char*)malloc(3000);
  CHECK(early != NULL);
  Paint(early, 3000, 1);
}

__attribute__((destructor(101))) static void FreeLate(void) {
  if (in_handler) return;
  CHECK(IsPainted(early, 3000, 1));
  early = (char*)realloc(early, 90000);
  CHECK(early != NULL && IsPainted(early, 3000, 1));
  free(early);
  free(calloc(100, 100));
}

// Makes enough garbage that the background thread has something to do.
static void Burst(void) {
  static char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = (char*)malloc(2000);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, 2000);
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
}

static void* Churn(void* number) {
  for (uint64_t random = (uint64_t)(uintptr_t)number;;) {
    char* block = (char*)malloc(1 + NextRandom(&random) % 50000);
    CHECK(block != NULL);
    block[0] = 1;
    free(block);
  }
}

static void StartChurn(int threads) {
  for (uintptr_t i = 1; i <= (uintptr_t)threads; ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, Churn, (void*)i) == 0);
    CHECK(pthread_detach(id) == 0);
  }
}

CASE(by_exit) {
  Burst();
  exit(kStatus);
}

CASE(by_underscore_exit) {
  Burst();
  _exit(kStatus);
}

CASE(by_quick_exit) {
  Burst();
  quick_exit(kStatus);
}

CASE(by_exit_after_idling) {
  Burst();
  usleep(1500000);
  exit(kStatus);
}

CASE(by_exit_while_threads_allocate) {
  StartChurn(4);
  Burst();
  exit(kStatus);
}

static void* ExitFromThread(void* unused) {
  Burst();
  exit(kStatus);
  return unused;
}

CASE(by_exit_from_a_thread) {
  StartChurn(3);
  pthread_t id;
  CHECK(pthread_create(&id, NULL, ExitFromThread, NULL) == 0);
  pause();
}

static void ExitInHandler(int number) {
  in_handler = number;
  exit(kStatus);
}

// As a handler of SIGTERM does: it interrupts this thread wherever it is, most often in malloc.
CASE(by_exit_in_a_handler) {
  CHECK(signal(SIGALRM, ExitInHandler) != SIG_ERR);
  const struct itimerval soon = {{0, 0}, {0, 400 + getpid() % 1000}};
  CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  static char* blocks[64];
  for (size_t i = 0;; ++i) {
    free(blocks[i % 64]);
    blocks[i % 64] = (char*)malloc(16 + i * 37 % 3000);
  }
}

static void AllocateAtExit(void) {
  void* block = malloc(5 << 20);
  CHECK(block != NULL);
  memset(block, 1, 5 << 20);
  free(block);
  Burst();
}

CASE(by_exit_with_handlers) {
  for (int i = 0; i < 40; ++i) CHECK(atexit(AllocateAtExit) == 0);
  exit(kStatus);
}

static void* WorkThenLeave(void* unused) {
  for (int i = 0; i < 20; ++i) {
    Burst();
    usleep(20000);
  }
  return unused;
}

// The process ends, with status 0, when the last of the program's own threads ends: the library's
// background thread must not keep it alive.
CASE(by_pthread_exit_of_main) {
  pthread_t id;
  Burst();
  CHECK(pthread_create(&id, NULL, WorkThenLeave, NULL) == 0);
  pthread_exit(NULL);
}

CASE(by_pthread_exit_of_main_alone) {
  Burst();
  usleep(300000);
  pthread_exit(NULL);
}

// daemon() forks and the parent leaves by _exit: the child has no background thread of its own yet.
CASE(by_exit_of_a_forked_child) {
  Burst();
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    Burst();
    usleep(1200000);
    Burst();
    exit(kStatus);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == kStatus, status);
  exit(kStatus);
}

// argv[2] seconds of sleep after a burst and nothing else: counted from outside. Status 0.
CASE(burst_then_sleep) {
  Burst();
  struct timespec rest = {atol(case_argv[2]), 0};
  while (nanosleep(&rest, &rest) != 0) {
  }
}
