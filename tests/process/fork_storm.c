// Forks at random moments while other threads allocate: both sides must allocate on. The child
// works, starts threads of its own and sometimes forks again; a child that hangs is killed by its
// alarm, which the parent sees as a failure. Usage: fork_storm storm FORKS THREADS MAX_SIZE
#include "../edge/case.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { kHeld = 64, kChildSeconds = 30 };

static atomic_int stop;
static size_t max_size;

static size_t Draw(uint64_t* random) {
  size_t bound = max_size;
  while (bound > 64 && NextRandom(random) % 3 != 0) bound /= 2;
  return 1 + NextRandom(random) % bound;
}

static void Churn(uint64_t* random, int operations) {
  unsigned char* held[kHeld] = {NULL};
  size_t sizes[kHeld] = {0};
  for (int i = 0; i < operations; ++i) {
    int at = (int)(NextRandom(random) % kHeld);
    if (held[at] != NULL) {
      CHECK_AT(held[at][0] == (unsigned char)at && held[at][sizes[at] - 1] == (unsigned char)at,
               at);
      free(held[at]);
    }
    sizes[at] = Draw(random);
    held[at] = (unsigned char*)malloc(sizes[at]);
    CHECK_AT(held[at] != NULL, sizes[at]);
    held[at][0] = held[at][sizes[at] - 1] = (unsigned char)at;
  }
  for (int at = 0; at < kHeld; ++at) free(held[at]);
}

static void* Busy(void* number) {
  uint64_t random = (uint64_t)(uintptr_t)number * 77 + 1;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) Churn(&random, 500);
  return NULL;
}

static void* ShortThread(void* number) {
  uint64_t random = (uint64_t)(uintptr_t)number * 99 + 1;
  Churn(&random, 300);
  return NULL;
}

static void Reap(pid_t child, int number) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) SayNumber("child ended by signal ", WTERMSIG(status));
  CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 0, number);
}

static void LiveInChild(int number, char* inherited) {
  alarm(kChildSeconds);
  uint64_t random = (uint64_t)number + 1;
  CHECK(IsPainted(inherited, 5000, 11));
  free(inherited);
  Churn(&random, 500);
  if (number % 4 == 0) {
    pthread_t ids[3];
    for (uintptr_t i = 0; i < 3; ++i) {
      CHECK(pthread_create(&ids[i], NULL, ShortThread, (void*)(i + 1)) == 0);
    }
    if (number % 8 == 0) {
      pid_t grandchild = fork();
      CHECK(grandchild >= 0);
      if (grandchild == 0) {
        alarm(kChildSeconds);
        Churn(&random, 300);
        exit(0);
      }
      Reap(grandchild, number);
    }
    for (int i = 0; i < 3; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
  }
  Churn(&random, 200);
}

CASE(storm) {
  CHECK(case_argc == 5);
  int forks = atoi(case_argv[2]);
  int threads = atoi(case_argv[3]);
  max_size = strtoull(case_argv[4], NULL, 10);
  CHECK(threads <= 16);
  pthread_t ids[16];
  for (uintptr_t i = 0; i < (uintptr_t)threads; ++i) {
    CHECK(pthread_create(&ids[i], NULL, Busy, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < forks; ++i) {
    char* inherited = (char*)malloc(5000);
    Paint(inherited, 5000, 11);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      LiveInChild(i, inherited);
      // exit() runs the destructors of the library, _exit() leaves at once: both must end.
      if (i % 2 == 0) exit(0);
      _exit(0);
    }
    CHECK(IsPainted(inherited, 5000, 11));
    free(inherited);
    Reap(child, i);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < threads; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}

static void* ForkingThread(void* number) {
  for (int i = 0; i < 25; ++i) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      char* block = (char*)malloc(5000);
      Paint(block, 5000, 11);
      LiveInChild(i, block);
      _exit(0);
    }
    uint64_t random = (uint64_t)(uintptr_t)number * 31 + (uint64_t)i + 1;
    Churn(&random, 200);
    Reap(child, i);
  }
  return NULL;
}

// Several threads fork at the same time.
CASE(every_thread_forks) {
  max_size = 200000;
  pthread_t ids[4];
  for (uintptr_t i = 0; i < 4; ++i) {
    CHECK(pthread_create(&ids[i], NULL, ForkingThread, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}

static void ForkInHandler(int number) {
  (void)number;
  const int kept = errno;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  Reap(child, 0);
  errno = kept;
}

// Handlers of several threads fork, each of which may have interrupted its thread in the heap, with
// a lock that the other waits for.
CASE(handlers_of_threads_fork) {
  enum { kThreads = 3, kSignals = 150 };
  max_size = 400000;
  alarm(kChildSeconds);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = ForkInHandler;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t ids[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&ids[i], NULL, Busy, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < kSignals; ++i) {
    for (int t = 0; t < kThreads; ++t) CHECK(pthread_kill(ids[t], SIGUSR1) == 0);
    usleep(3000);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}

static void AllocateInHandler(void) {
  void* block = malloc(777);
  CHECK(block != NULL);
  free(block);
}

// Fork handlers of the program may allocate: they run inside or outside the library's own.
CASE(handlers_allocate) {
  max_size = 20000;
  CHECK(pthread_atfork(AllocateInHandler, AllocateInHandler, AllocateInHandler) == 0);
  pthread_t ids[3];
  for (uintptr_t i = 0; i < 3; ++i) {
    CHECK(pthread_create(&ids[i], NULL, Busy, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < 60; ++i) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(kChildSeconds);
      uint64_t random = 5;
      Churn(&random, 100);
      _exit(0);
    }
    Reap(child, i);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}

// Fork, fork in the child, and so on: each generation outlives a large heap of its parent.
CASE(generations) {
  max_size = 100000;
  for (int depth = 0; depth < 12; ++depth) {
    uint64_t random = (uint64_t)depth + 1;
    char* block = (char*)malloc(4 << 20);
    CHECK(block != NULL);
    memset(block, depth, 4 << 20);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child != 0) {
      Churn(&random, 300);
      CHECK(block[(4 << 20) - 1] == depth);
      Reap(child, depth);
      return;
    }
    alarm(kChildSeconds);
    Churn(&random, 300);
    CHECK(block[(4 << 20) - 1] == depth);
    free(block);
  }
}
