// Bursts of which one object in fifty stays, told apart by the function that called the wrapper of
// malloc. Goes on until those that stay lie on pages without the others, and says "apart"; after 20
// s of CPU it says "mixed", with "brief" after half a second. With "many", four threads do that at
// once; with "fork", a child after its parent; with "jit", code that is made at run time and has no
// unwind table, which is replaced by other code at the same addresses, and then by code elsewhere;
// with "modules A B", two shared objects that are loaded in turn. "passing N" makes N bursts of
// which nothing stays, and then works little for a second and a half; "rare N" does so, too, and
// once in between takes a block of each of many sizes. "forks N" does so, and leaves the end to a
// child. "few" makes small bursts, all of whose objects fill a few pages. "again N" learns what
// stays, and then takes it by 32 other calls, N times each, which differ from the first in where
// they are made alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kSize = 500, kBurst = 60000, kEvery = 50, kKept = kBurst / kEvery };

static size_t g_size = kSize;
static void* Filled(void* p) { return memset(p, 1, g_size); }

__attribute__((noinline)) static void* Wrapper(void) {
  void* volatile p = malloc(g_size);
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

typedef void* (*Maker)(void);
static Maker g_passing = Passing, g_staying = Staying;

// Of this thread's own time: a busy machine is no reason to give up.
static double Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
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
static int g_rounds = 1;  // at least: what was learned of other code may keep them apart, too

static int GetApart(void) {
  static __thread void** others;
  if (others == NULL) others = malloc(kBurst * sizeof(*others));
  const double end = Now() + g_seconds;
  for (int round = 1; Now() < end; ++round) {
    void** kept = malloc(kKept * sizeof(*kept));
    int n = 0, stays = 0;
    for (int i = 0; i < kBurst; ++i) {
      if (i % kEvery == 0) {
        kept[stays++] = Filled(g_staying());
      } else {
        others[n++] = Filled(g_passing());
      }
    }
    const int mixed = Mixed(kept, others, n);
    for (int i = 0; i < n; ++i) {
      if (*(char*)others[i] != 1) abort();
      free(others[i]);
    }
    if (mixed < kKept / 20 && round >= g_rounds) return 1;
  }
  return 0;
}

static void* Run(void* unused) {
  (void)unused;
  return (void*)(intptr_t)GetApart();
}

// Two functions at `code`, each a call of malloc; the first passes or stays.
static void MakeCode(unsigned char* code, int first_stays) {
  void* (*allocate)(size_t) = malloc;
  for (int i = 0; i < 2; ++i) {
#if defined(__x86_64__)
    unsigned char body[] = {0x55, 0x48, 0x89, 0xe5, 0xbf, kSize & 255, kSize >> 8, 0,
                            0,    0x48, 0xb8, 0,    0,    0,           0,          0,
                            0,    0,    0,    0xff, 0xd0, 0x5d,        0xc3};
    memcpy(body + 11, &allocate, sizeof(allocate));
#elif defined(__aarch64__)
    uint32_t body[10] = {0xa9bf7bfd, 0x910003fd, 0x52800000 | kSize << 5,
                         0x580000b0, 0xd63f0200, 0xa8c17bfd,
                         0xd65f03c0, 0xd503201f};
    memcpy(body + 8, &allocate, sizeof(allocate));
#endif
    memcpy(code + 64 * i, body, sizeof(body));
  }
  __builtin___clear_cache((char*)code, (char*)code + 128);
  Maker made[2];
  void* at[] = {code, code + 64};
  memcpy(made, at, sizeof(made));
  g_passing = made[first_stays];
  g_staying = made[!first_stays];
}

static unsigned char* PagesAt(void* at) {
  const int fixed = at != NULL ? MAP_FIXED : 0;
  void* code = mmap(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  if (code == MAP_FAILED) abort();
  return code;
}

static int RunMadeCode(void) {
  unsigned char* code = PagesAt(NULL);
  MakeCode(code, 0);
  const int apart = GetApart();
  const double seconds = g_seconds;
  g_seconds = 0.5;  // what died there is remembered for longer
  MakeCode(PagesAt(code), 1);
  GetApart();
  g_seconds = seconds;
  g_rounds = 40;
  MakeCode(PagesAt(NULL), 0);
  return GetApart() & apart;
}

static void* Load(const char* path) {
  void* module = dlopen(path, RTLD_NOW);
  if (module == NULL) abort();
  g_passing = (Maker)dlsym(module, "Passing");
  g_staying = (Maker)dlsym(module, "Staying");
  return module;
}

static int RunModules(char** paths) {
  int apart = 1;
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 20; ++k) dlclose(Load(paths[k % 2]));
    void* module = Load(paths[i]);
    if (i == 1) g_rounds = 160;
    apart &= GetApart();
    dlclose(module);
  }
  return apart;
}

__attribute__((noinline)) static void PassingBurst(void** all, int n) {
  for (int i = 0; i < n; ++i) all[i] = Passing();
  for (int i = 0; i < n; ++i) free(all[i]);
}

__attribute__((noinline)) static void TakeRareSizes(void) {
  for (size_t size = 16; size <= 1024; size += 16) {
    void* volatile p = malloc(size);
    free(p);
  }
}

static int RunPassing(int bursts, int has_rare) {
  void** all = malloc(kBurst * sizeof(*all));
  volatile int n = kBurst;  // one call for both: another would be another stack
  for (int tick = 0; tick < bursts + 150; ++tick) {
    PassingBurst(all, n);
    if (tick < bursts) continue;
    n = 1000;
    if (has_rare && tick == bursts + 75) TakeRareSizes();
    usleep(10000);
  }
  free(all);
  return 1;
}

// The statistics are the child's.
static int RunThenFork(int bursts) {
  RunPassing(bursts, 0);
  const pid_t child = fork();
  if (child == 0) return 1;
  if (child < 0 || waitpid(child, NULL, 0) != child) abort();
  _exit(0);
}

static int RunFew(void) {
  enum { kAtOnce = 100, kBursts = 60, kStays = 5 };
  void* volatile large = malloc(9 << 20);  // for the background thread
  static void* kept[kBursts * kStays];
  void* others[kAtOnce];
  for (int burst = 0; burst < kBursts; ++burst) {
    for (int i = 0; i < kStays; ++i) kept[burst * kStays + i] = Staying();
    for (int i = 0; i < kAtOnce; ++i) others[i] = Passing();
    for (int i = 0; i < kAtOnce; ++i) free(others[i]);
    usleep(10000);
  }
  free(large);
  return kept[0] != NULL;
}

#define CALL(n)                 \
  case n:                       \
    p = Staying();              \
    asm volatile("# call " #n); \
    break;
#define CALLS(a, b, c, d) CALL(a) CALL(b) CALL(c) CALL(d)
__attribute__((noinline)) static void* StayingBy(int call) {
  void* volatile p = NULL;
  switch (call) {
    CALLS(0, 1, 2, 3)
    CALLS(4, 5, 6, 7)
    CALLS(8, 9, 10, 11)
    CALLS(12, 13, 14, 15)
    CALLS(16, 17, 18, 19)
    CALLS(20, 21, 22, 23)
    CALLS(24, 25, 26, 27)
    CALLS(28, 29, 30, 31)
    CALL(32)
  }
  return p;
}

static int RunAgain(int times) {
  enum { kBursts = 8, kAll = 600000, kEveryOf = 6 };
  g_size = 16;
  void** others = malloc(kAll * sizeof(*others));
  volatile int call = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    for (int i = 0; i < kAll; ++i) {
      others[i] = Passing();
      if (i % kEveryOf == 0) StayingBy(call);
    }
    for (int i = 0; i < kAll; ++i) free(others[i]);
    usleep(50000);
  }
  for (call = 1; call <= 32; ++call) {
    for (int i = 0; i < times; ++i) StayingBy(call);
  }
  for (int i = 0; i < 1500; ++i) {
    free(Passing());  // not at rest
    usleep(1000);
  }
  free(others);
  return 1;
}

static int RunForked(void) {
  int apart = GetApart();
  const pid_t child = fork();
  if (child == 0) _exit(GetApart() ? 0 : 1);
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  return apart & (status == 0);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "one";
  const int threads = strcmp(how, "many") == 0 ? 4 : 1;
  if (strcmp(how, "brief") == 0) g_seconds = 0.5;
  if (threads == 1 && strcmp(how, "one") != 0 && strcmp(how, "brief") != 0) {
    const int ok = strcmp(how, "jit") == 0       ? RunMadeCode()
                   : strcmp(how, "fork") == 0    ? RunForked()
                   : strcmp(how, "passing") == 0 ? RunPassing(atoi(argv[2]), 0)
                   : strcmp(how, "rare") == 0    ? RunPassing(atoi(argv[2]), 1)
                   : strcmp(how, "forks") == 0   ? RunThenFork(atoi(argv[2]))
                   : strcmp(how, "few") == 0     ? RunFew()
                   : strcmp(how, "again") == 0   ? RunAgain(atoi(argv[2]))
                                                 : RunModules(argv + 2);
    puts(ok ? "apart" : "mixed");
    return 0;
  }
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
