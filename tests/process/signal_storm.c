// Signals that interrupt the allocator at any instruction: an interval timer for the process,
// SIGUSR1 sent to each thread in turn, and threads that change CPU. The handlers only count.
#include "../edge/case.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

enum { kThreads = 4, kHeld = 256 };

static atomic_int stop;
static atomic_long signals_seen;

static void Count(int number) {
  (void)number;
  int kept = errno;
  atomic_fetch_add_explicit(&signals_seen, 1, memory_order_relaxed);
  errno = kept;
}

static void* Churn(void* number) {
  uint64_t random = (uint64_t)(uintptr_t)number;
  unsigned char* held[kHeld] = {NULL};
  size_t sizes[kHeld];
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    int at = (int)(NextRandom(&random) % kHeld);
    if (held[at] != NULL) {
      CHECK_AT(IsPainted(held[at], sizes[at], (uint64_t)(uintptr_t)number * kHeld + (uint64_t)at),
               sizes[at]);
      free(held[at]);
    }
    sizes[at] = 1 + NextRandom(&random) % (at % 16 == 0 ? 5000 : 200);
    held[at] = (unsigned char*)malloc(sizes[at]);
    CHECK(held[at] != NULL);
    Paint(held[at], sizes[at], (uint64_t)(uintptr_t)number * kHeld + (uint64_t)at);
  }
  for (int at = 0; at < kHeld; ++at) free(held[at]);
  return NULL;
}

static long MillisecondsSince(const struct timespec* begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
}

CASE(storm) {
  long milliseconds = atol(case_argv[2]);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = Count;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t ids[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&ids[i], NULL, Churn, (void*)(i + 1)) == 0);
  }
  const struct itimerval timer = {{0, 500}, {0, 500}};
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  cpu_set_t allowed;
  CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  struct timespec begin;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  long round = 0;
  // A busy machine delivers fewer signals a second: then it takes longer.
  while (MillisecondsSince(&begin) < milliseconds ||
         (atomic_load(&signals_seen) <= milliseconds / 4 &&
          MillisecondsSince(&begin) < milliseconds * 12)) {
    CHECK(pthread_kill(ids[round % kThreads], SIGUSR1) == 0);
    if (round % 50 == 0) {
      cpu_set_t one = allowed;
      if (CPU_COUNT(&allowed) > 1) CPU_CLR((int)(round / 50 % 2), &one);
      if (CPU_COUNT(&one) > 0) pthread_setaffinity_np(ids[round / 7 % kThreads], sizeof one, &one);
    }
    ++round;
    const struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
  }
  const struct itimerval off = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
  CHECK_AT(atomic_load(&signals_seen) > milliseconds / 4, atomic_load(&signals_seen));
}

// The library's own threads take no signal of the program's: once all of the program's threads
// block a signal, it stays pending for sigwait.
CASE(library_threads_block_signals) {
  for (int i = 0; i < 100; ++i) {
    char* block = (char*)malloc(1 << 20);
    CHECK(block != NULL);
    memset(block, 1, 1 << 20);
    free(block);
  }
  usleep(200000);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  pthread_t id;
  CHECK(pthread_create(&id, NULL, Churn, (void*)(uintptr_t)1) == 0);
  CHECK(kill(getpid(), SIGTERM) == 0 && kill(getpid(), SIGUSR1) == 0);
  usleep(300000);
  int received = 0;
  CHECK(sigwait(&set, &received) == 0 && (received == SIGTERM || received == SIGUSR1));
  CHECK(sigwait(&set, &received) == 0 && (received == SIGTERM || received == SIGUSR1));
  atomic_store(&stop, 1);
  CHECK(pthread_join(id, NULL) == 0);
}

#ifdef __x86_64__

// A handler that comes after a given number of instructions, and allocates itself.
static volatile int steps_left;
static void* volatile handler_made;

static void AllocateAfterSteps(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  if (steps_left-- > 0) return;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
  free(handler_made);
  handler_made = malloc(100);
}

static void SetTrapFlag(void) {
  // Past what a leaf function may keep below the top of the stack.
  __asm__ volatile(
      "lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
          : "memory", "cc");
}

static size_t Samples(void) {
  extern size_t strata_stats_json(char*, size_t) __attribute__((weak));
  static char json[1 << 16];
  CHECK(strata_stats_json != NULL && strata_stats_json(json, sizeof json) < sizeof json);
  const char* at = strstr(json, "\"samples\":");
  CHECK(at != NULL);
  return strtoul(at + strlen("\"samples\":"), NULL, 10);
}

// A handler that allocates at any instruction of a malloc up to its restartable sequence, with
// samples due all the time: blocks stay apart, and the sampler goes on. Run with a mean of 1 KiB
// between samples.
CASE(handler_allocates) {
  enum { kMostSteps = 24, kRounds = 60, kBytes = 400 };
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = AllocateAfterSteps;
  action.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
  const size_t before = Samples();
  for (int round = 0; round < kRounds; ++round) {
    for (int steps = 0; steps < kMostSteps; ++steps) {
      steps_left = steps;
      SetTrapFlag();
      char* block = (char*)malloc(kBytes);
      while (steps_left >= 0) continue;
      CHECK(block != NULL && handler_made != NULL && block != handler_made);
      memset(block, 1, kBytes);
      memset(handler_made, 2, 100);
      CHECK(block[0] == 1 && block[kBytes - 1] == 1);
      free(block);
    }
  }
  // Of 500 bytes each: half a sample, by chance more or fewer.
  const size_t taken = Samples() - before;
  CHECK_AT(taken > kRounds * kMostSteps / 3 && taken < kRounds * kMostSteps, taken);
}

#endif
