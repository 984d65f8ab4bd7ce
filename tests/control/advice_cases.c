// Programs that waste memory or time in one way each, and, with a second argument, the same
// programs as the report's advice wants them. Each says "ready" and goes on as it is.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { kMiB = 1 << 20 };
static void* volatile g_sink;

static void Ready(void) {
  puts("ready");
  fflush(stdout);
}

// Where the machine has no warm hugepages the heap begins on small pages, and it is rebuilt for a
// program that works only.
static void Work(void) {
  for (;;) {
    for (volatile int i = 0; i < 2000000; ++i) {
    }
    usleep(5000);
  }
}

__attribute__((noinline)) void* MakeSession(size_t size) { return memset(malloc(size), 1, size); }
__attribute__((noinline)) void* MakeRequest(size_t size) { return memset(malloc(size), 2, size); }
__attribute__((noinline)) void* MakeScratch(size_t size) { return memset(malloc(size), 1, size); }

// One in eight objects outlives the burst, and lies between others unless it comes first (1), or is
// copied when the burst is over (2).
static void Pinned(int followed) {
  enum { kKept = 12000 };
  static void* kept[kKept];
  static void* gone[7 * kKept];
  for (int i = 0; followed == 1 && i < kKept; ++i) kept[i] = MakeSession(1000);
  for (int i = 0; i < kKept; ++i) {
    for (int j = 0; j < 7; ++j) gone[7 * i + j] = MakeRequest(1000);
    if (followed != 1) kept[i] = MakeSession(1000);
  }
  for (int i = 0; i < 7 * kKept; ++i) free(gone[i]);
  for (int i = 0; followed == 2 && i < kKept; ++i) gone[i] = kept[i], kept[i] = MakeSession(1000);
  for (int i = 0; followed == 2 && i < kKept; ++i) free(gone[i]);
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
  Work();
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

// After a burst of objects of many sizes, it works on with one: what its caches hold lies unused.
static void Quiet(size_t n) {
  void** v = calloc(n, sizeof *v);
  g_sink = memset(malloc(30 * kMiB), 1, 30 * kMiB);
  for (size_t i = 0; i < n; ++i) v[i] = MakeRequest(1000 + i % 64 * 240);
  for (size_t i = 0; i < n; ++i) free(v[i]);
  for (int round = 0;; ++round) {
    for (int i = 0; i < 1000; ++i) free(MakeScratch(500));
    usleep(1000);
    if (round == 100) Ready();
  }
}

// Frees and takes so much at once that caches fill, or miss; or takes it once.
static void Swing(size_t n, size_t size, int followed, int small) {
  void** v = calloc(n, sizeof *v);
  if (!small) g_sink = memset(malloc(30 * kMiB), 1, 30 * kMiB);
  for (int round = 0;; ++round) {
    // Of many sizes, if none is given: a cache keeps only so much of one.
    for (size_t i = 0; i < n && (!followed || round == 0); ++i)
      v[i] = malloc(size != 0 ? size : 1000 + i % 64 * 240);
    for (size_t i = 0; i < n && !followed; ++i) free(v[i]);
    if (round == 10) Ready();
    if (round > 10) usleep(1000);
  }
}

// Nothing but taking and freeing so many at once; or it has them.
static void Toil(size_t n, size_t size, int followed) {
  void** v = calloc(n, sizeof *v);
  g_sink = memset(malloc(30 * kMiB), 1, 30 * kMiB);
  Ready();
  for (int round = 0;; ++round) {
    for (size_t i = 0; i < n; ++i) {
      if (!followed || round == 0) v[i] = malloc(size != 0 ? size : 1000 + i % 64 * 240);
      *(volatile char*)v[i] = (char)i;
    }
    for (size_t i = 0; i < n && !followed; ++i) free(v[i]);
  }
}

// Once told to, it frees all but an eighth, which is spread over all its hugepages or was allocated
// first.
static void Lull(int mib, int followed) {
  const int n = mib * 16;
  void** block = calloc((size_t)n, sizeof *block);
  for (int i = 0; i < n; ++i) {
    const int stays = followed ? i < n / 8 : i % 8 == 0;
    block[i] = stays ? MakeSession(65536) : MakeRequest(65536);
  }
  g_sink = block;
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  sigprocmask(SIG_BLOCK, &told, NULL);
  Ready();
  int signal;
  sigwait(&told, &signal);
  for (int i = 0; i < n; ++i)
    if (followed ? i >= n / 8 : i % 8 != 0) free(block[i]), block[i] = NULL;
  for (;;) pause();
}

// Bursts of which one object in a few spans stays, or was there before them; until it is told to
// rest.
static void Remains(int followed) {
  enum { kBurst = 40000, kEvery = 320, kBursts = 100 };
  static void* burst[kBurst];
  static void* kept[kBursts * (kBurst / kEvery)];
  int stays = 0;
  sigset_t told, pending;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  sigprocmask(SIG_BLOCK, &told, NULL);
  g_sink = memset(malloc(20 * kMiB), 1, 20 * kMiB);
  while (followed && stays < kBursts * (kBurst / kEvery)) kept[stays++] = MakeSession(200);
  for (int round = 0; round < kBursts; ++round) {
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1)) break;
    for (int i = 0; i < kBurst; ++i) {
      burst[i] = MakeRequest(200);
      if (!followed && i % kEvery == 0) kept[stays++] = MakeSession(200);
    }
    usleep(round % 2 == 0 ? 1100000 : 100000);  // now and then a round of the library falls in
    for (int i = 0; i < kBurst; ++i) free(burst[i]);
    usleep(100000);
    if (round == 4) Ready();
  }
  g_sink = kept;
  prctl(PR_SET_NAME, "rests", 0, 0, 0);
  pause();
}

static void Forbid(int followed) {
  if (!followed) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  g_sink = memset(malloc(128 * kMiB), 1, 128 * kMiB);
  Ready();
  pause();
}

// A peak that is over.
static void Spike(void) {
  enum { kBlocks = 64 };
  void* block[kBlocks];
  for (int i = 0; i < kBlocks; ++i) block[i] = memset(malloc(kMiB), 1, kMiB);
  for (int i = 1; i < kBlocks; ++i) free(block[i]);
  g_sink = block[0];
  Ready();
  pause();
}

// A load that comes and goes: what is free is in use again before a second is over.
static void Tide(void) {
  enum { kBlocks = 40 };
  void* block[kBlocks];
  g_sink = memset(malloc(40 * kMiB), 1, 40 * kMiB);
  for (int round = 0;; ++round) {
    for (int i = 0; i < kBlocks; ++i) block[i] = memset(malloc(kMiB), 1, kMiB);
    usleep(round % 2 == 0 ? 900000 : 100000);
    for (int i = 0; i < kBlocks; ++i) free(block[i]);
    if (round == 1) Ready();
    usleep(500000);
  }
}

// Objects that one thread makes and another frees, for as long as the program runs.
enum { kBatch = 64 };
static void* g_batch[2][kBatch];
static pthread_barrier_t g_turn;

__attribute__((noinline)) void* MakeMessage(void) { return memset(malloc(1024), 1, 1024); }

// On the first of the CPUs that we may use, or the second: threads that a busy machine runs on one
// CPU share its cache.
static void StayOn(int which) {
  cpu_set_t may, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof may, &may) != 0 || CPU_COUNT(&may) < 2) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &may) && which-- == 0) CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

static void* FreeWhatOthersMade(void* unused) {
  StayOn(1);
  for (int turn = 0;; turn ^= 1) {
    pthread_barrier_wait(&g_turn);
    for (int i = 0; i < kBatch; ++i) free(g_batch[turn][i]);
  }
  return unused;
}

static void Hand(int followed) {
  pthread_t other;
  pthread_barrier_init(&g_turn, NULL, 2);
  if (!followed) pthread_create(&other, NULL, FreeWhatOthersMade, NULL);
  StayOn(0);
  for (int round = 0;; ++round) {
    const int turn = round & 1;
    for (int i = 0; i < kBatch; ++i) g_batch[turn][i] = MakeMessage();
    usleep(2000);  // they live longer than what a stack could hold
    if (!followed) pthread_barrier_wait(&g_turn);
    for (int i = 0; followed && i < kBatch; ++i) free(g_batch[turn][i]);
    if (round == 1500) Ready();
  }
}

// One object a turn that is gone before the next, or the same one each time.

static void Scratch(size_t size, int followed) {
  void* stays = memset(malloc(30 * kMiB), 1, 30 * kMiB);
  void* kept = followed ? MakeScratch(size) : NULL;
  for (int round = 0;; ++round) {
    void* p = followed ? kept : MakeScratch(size);
    g_sink = memset(p, round, 64);
    if (!followed) free(p);
    if (round == 50000) Ready();
    if (round > 50000 && round % 1000 == 0) usleep(1000);
  }
  free(stays);
}

__attribute__((noinline)) void* LoadTable(size_t size) { return memset(malloc(size), 1, size); }

// Half of what it takes is needed while it starts alone.
static void Peak(int followed) {
  void* stays[40];
  for (int i = 0; i < 40; ++i) stays[i] = MakeSession(kMiB);
  void* table = LoadTable((size_t)(followed ? 4 : 60) * kMiB);
  usleep(300000);
  free(table);
  g_sink = stays;
  Ready();
  pause();
}

// Memory that the program maps by itself.
static void Mapped(void) {
  enum { kBytes = 96 * kMiB };
  void* p = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_sink = memset(p, 1, kBytes);
  Ready();
  pause();
}

struct Pair {
  struct Pair* next;
  long value;
};
__attribute__((noinline)) struct Pair* MakePair(size_t n) {
  return malloc(n * sizeof(struct Pair));
}

// Two million small objects, one by one or by the array.
static void Tiny(int followed) {
  enum { kPairs = 2000000, kArray = 1000 };
  struct Pair* before = NULL;
  for (int i = 0; i < kPairs; i += followed ? kArray : 1) {
    struct Pair* p = MakePair(followed ? kArray : 1);
    for (int j = 0; j < (followed ? kArray : 1); ++j) p[j].next = before, before = &p[j];
  }
  g_sink = before;
  Ready();
  pause();
}

__attribute__((noinline)) void* MakeRecord(size_t size) { return memset(malloc(size), 1, size); }

// One type of object; with a field less where that is followed.
static void Fields(int followed) {
  void** before = NULL;
  for (int i = 0; i < 600000; ++i) {
    void** p = MakeRecord(followed ? 64 : 80);
    *p = before;
    before = p;
  }
  g_sink = before;
  Ready();
  pause();
}

// As MakeRecord does, under a name of its own, which the advice shows.
__attribute__((noinline)) void* MakeFrame(size_t size) { return memset(malloc(size), 1, size); }

// A large buffer that comes and goes with each round, or is kept; ready after 200 rounds.
static void Frames(int followed) {
  void* kept = followed ? MakeFrame(5 * kMiB) : NULL;
  g_sink = malloc(100);
  for (int round = 0;; ++round) {
    void* p = followed ? kept : MakeFrame(5 * kMiB);
    g_sink = memset(p, round, 64);
    if (!followed) free(p);
    if (round == 200) Ready();
    if (round >= 200) usleep(5000);
  }
}

int main(int argc, char** argv) {
  const char* name = argv[1];
  const int n = argc > 2 ? atoi(argv[2]) : 0;
  if (!strcmp(name, "pinned")) Pinned(n);
  if (!strcmp(name, "slack")) Slack(n);
  if (!strcmp(name, "leak")) Leak(n);
  if (!strcmp(name, "swing")) Swing((size_t)n, (size_t)atoi(argv[3]), argc > 4, argc > 5);
  if (!strcmp(name, "quiet")) Quiet((size_t)n);
  if (!strcmp(name, "toil")) Toil((size_t)n, (size_t)atoi(argv[3]), argc > 4);
  if (!strcmp(name, "lull")) Lull(n, argc > 3);
  if (!strcmp(name, "remains")) Remains(n);
  if (!strcmp(name, "forbid")) Forbid(n);
  if (!strcmp(name, "spike")) Spike();
  if (!strcmp(name, "tide")) Tide();
  if (!strcmp(name, "mapped")) Mapped();
  if (!strcmp(name, "tiny")) Tiny(n);
  if (!strcmp(name, "fields")) Fields(n);
  if (!strcmp(name, "frames")) Frames(n);
  if (!strcmp(name, "hand")) Hand(n);
  if (!strcmp(name, "scratch")) Scratch((size_t)atoi(argv[3]), n);
  if (!strcmp(name, "peak")) Peak(n);
  return 2;
}
