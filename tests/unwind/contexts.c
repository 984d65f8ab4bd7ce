// The walk where stacks are not simple: in signal handlers (on the thread's stack, on an alternate
// one, in the middle of malloc), in fibers, in forked children, and in code that no table covers.
// argv[1] names the case; it ends with status 0 and writes nothing.
#include "compare.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define REQUIRE(c)                                         \
  do {                                                     \
    if (!(c)) {                                            \
      dprintf(2, "failed at line %d: %s\n", __LINE__, #c); \
      _exit(1);                                            \
    }                                                      \
  } while (0)

static volatile long sink;

__attribute__((noinline)) static long Down(int depth, void (*leaf)(void)) {
  volatile char bytes[100];
  bytes[0] = (char)depth;
  if (depth == 0) {
    leaf();
  } else {
    sink += Down(depth - 1, leaf);
  }
  return bytes[0];
}

static void CompareHere(void) { Compare(12); }
static void OnSignal(int number) {
  (void)number;
  Down(8, CompareHere);
}
static void RaiseHere(void) { raise(SIGUSR1); }

static void Handle(int number, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  REQUIRE(sigaction(number, &action, NULL) == 0);
}

static void UseAlternateStack(void) {
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_size = 128 << 10;
  stack.ss_sp =
      mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
}

static void SignalCase(void) {
  Handle(SIGUSR1, OnSignal, SA_RESTART);
  Down(10, RaiseHere);
}

// The walk goes on from the alternate stack to the one that was interrupted, back and forth.
static void AltStackCase(void) {
  UseAlternateStack();
  Handle(SIGUSR1, OnSignal, SA_ONSTACK | SA_RESTART);
  for (int i = 9; i < 20; ++i) {
    Down(i, RaiseHere);
    Down(28 - i, CompareHere);
  }
}

// A fault: the frame below the handler stands at an instruction, not after a call.
static void* volatile nowhere;
static void OnFault(int number) {
  (void)number;
  Compare(10);
  _exit(0);
}
static void FaultHere(void) { *(volatile char*)nowhere = 1; }
static void FaultCase(void) {
  UseAlternateStack();
  Handle(SIGSEGV, OnFault, SA_ONSTACK);
  Down(10, FaultHere);
  _exit(1);
}

// A timer interrupts malloc and free anywhere, and this thread's own walks. backtrace may not be
// called there by every rule, but its frames are all known by now.
static atomic_int interrupts;
static atomic_int reached_main;
static uintptr_t main_begin, main_end;
static void OnTimer(int number) {
  (void)number;
  uintptr_t frames[kMaxFrames];
  const size_t n = probe_walk(frames, kMaxFrames);
  ++interrupts;
  for (size_t i = 0; i < n; ++i) {
    if (frames[i] > main_begin && frames[i] <= main_end) {
      ++reached_main;
      return;
    }
  }
}
__attribute__((noinline)) static void Busy(void) {
  void* blocks[64] = {0};
  for (long i = 0; interrupts < 400; ++i) {
    free(blocks[i & 63]);
    blocks[i & 63] = malloc((size_t)(i * 37 & 4095));
    REQUIRE(blocks[i & 63] != NULL);
    uintptr_t frames[kMaxFrames];
    if ((i & 7) == 0) REQUIRE(probe_walk(frames, kMaxFrames) > 3);
  }
  for (int i = 0; i < 64; ++i) free(blocks[i]);
}
static void TimerCase(void) {
  UseAlternateStack();
  Handle(SIGPROF, OnTimer, SA_ONSTACK | SA_RESTART);
  // Busy is called from here, so this function is in every walk that is not cut short.
  uintptr_t frames[kMaxFrames];
  REQUIRE(probe_walk(frames, kMaxFrames) > 2);
  main_begin = frames[0];
  main_end = main_begin + 400;
  struct itimerval often = {{0, 500}, {0, 500}};
  REQUIRE(setitimer(ITIMER_PROF, &often, NULL) == 0);
  Busy();
  struct itimerval never = {{0, 0}, {0, 0}};
  REQUIRE(setitimer(ITIMER_PROF, &never, NULL) == 0);
  // Assembly of libc's that does not describe itself may cut a walk short, rarely.
  REQUIRE(reached_main >= interrupts * 9 / 10);
}

// Fibers whose stacks come, are walked on by several threads in turn, and go, at the same places.
enum { kFiberStack = 32 << 10 };
static _Thread_local ucontext_t back;
static _Thread_local ucontext_t fiber;
static void FiberMain(void) {
  Down(14, CompareHere);
  swapcontext(&fiber, &back);
  Down(6, RaiseHere);
}
static void* Fibers(void* unused) {
  for (volatile int i = 0; i < 200; ++i) {
    char* stack =
        mmap(NULL, kFiberStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    // The top page stays a guard: a walk that ran over the end would find it.
    const size_t usable = i % 2 == 0 ? kFiberStack : kFiberStack - 4096;
    REQUIRE(mprotect(stack + usable, kFiberStack - usable, PROT_NONE) == 0);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = usable;
    fiber.uc_link = &back;
    makecontext(&fiber, FiberMain, 0);
    swapcontext(&back, &fiber);
    Down(12, CompareHere);
    swapcontext(&back, &fiber);
    REQUIRE(munmap(stack, kFiberStack) == 0);
  }
  return unused;
}
static void FiberCase(void) {
  Handle(SIGUSR1, OnSignal, SA_RESTART);
  Fibers(NULL);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) REQUIRE(pthread_create(&threads[i], NULL, Fibers, NULL) == 0);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

// Children of a process whose other threads walk and refresh all the time.
static atomic_int stop;
static void* WalkAlways(void* unused) {
  uintptr_t frames[kMaxFrames];
  while (!stop) REQUIRE(probe_walk(frames, kMaxFrames) > 2);
  return unused;
}
static void* RefreshAlways(void* unused) {
  while (!stop) REQUIRE(probe_refresh());
  return unused;
}
static void ForkCase(void) {
  pthread_t threads[3];
  REQUIRE(pthread_create(&threads[0], NULL, WalkAlways, NULL) == 0);
  REQUIRE(pthread_create(&threads[1], NULL, WalkAlways, NULL) == 0);
  REQUIRE(pthread_create(&threads[2], NULL, RefreshAlways, NULL) == 0);
  for (int i = 0; i < 40; ++i) {
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      probe_forked();
      Down(10, CompareHere);
      for (int k = 0; k < 10; ++k) REQUIRE(probe_refresh());
      Down(10, CompareHere);
      _exit(0);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
  }
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

// Code made at run time: a walk ends there and says that the tables are stale, but refreshing in
// vain makes it say so less and less often.
static int WalkFromJit(void) {
  uintptr_t frames[kMaxFrames];
  return (int)probe_walk(frames, kMaxFrames);
}
static int (*MakeJit(void))(int (*)(void)) {
#ifdef __aarch64__
  // stp x29, x30, [sp, #-16]!; blr x0; ldp x29, x30, [sp], #16; ret
  static const unsigned kCode[] = {0xa9bf7bfd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
#else
  // push rbx; call rdi; pop rbx; ret
  static const unsigned char kCode[] = {0x53, 0xff, 0xd7, 0x5b, 0xc3};
#endif
  unsigned char* code =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(code != MAP_FAILED);
  memcpy(code, kCode, sizeof kCode);
  __builtin___clear_cache((char*)code, (char*)code + sizeof kCode);
  REQUIRE(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
  return (int (*)(int (*)(void)))(uintptr_t)code;
}
static void JitCase(void) {
  int (*const jit)(int (*)(void)) = MakeJit();
  REQUIRE(!probe_stale());
  int walks = 0;
  int refreshes = 0;
  for (; walks < 1000; ++walks) {
    REQUIRE(jit(WalkFromJit) == 2);
    if (!probe_stale()) continue;
    REQUIRE(probe_refresh());
    ++refreshes;
  }
  REQUIRE(refreshes >= 5 && refreshes <= 12);
}

// Without a refresh there are no tables: the walk reads the files that are mapped.
static void UnpreparedCase(void) {
  uintptr_t frames[kMaxFrames];
  probe_start();
  REQUIRE(probe_stale());
  Compare(3);
  REQUIRE(probe_stale());
  REQUIRE(probe_walk(frames, 0) == 0);
}

// A refresh that fails is tried again, but less and less often; once one works, all is forgotten.
static int StaleAfter(int asks) {
  for (int i = 0; i < asks; ++i) REQUIRE(!probe_stale());
  return probe_stale();
}
static void LimitMemory(rlim_t most) {
  struct rlimit room;
  REQUIRE(getrlimit(RLIMIT_AS, &room) == 0);
  room.rlim_cur = most;
  REQUIRE(setrlimit(RLIMIT_AS, &room) == 0);
}
static void RefusedCase(void) {
  enum { kLongest = 256 };
  int (*const jit)(int (*)(void)) = MakeJit();
  probe_start();
  REQUIRE(probe_stale() && probe_stale());
  LimitMemory(4096);
  for (int pause = 1; pause <= kLongest; pause *= 2) {
    REQUIRE(!probe_refresh());
    REQUIRE(StaleAfter(pause));
    REQUIRE(probe_stale());
  }
  REQUIRE(!probe_refresh());
  REQUIRE(StaleAfter(kLongest));
  REQUIRE(!probe_refresh());
  for (int i = 0; i < kLongest; ++i) probe_round();  // waits as well
  REQUIRE(probe_stale());
  LimitMemory(RLIM_INFINITY);
  probe_round();
  REQUIRE(!probe_stale() && probe_bytes() != 0);
  LimitMemory(4096);
  REQUIRE(!probe_refresh());
  REQUIRE(jit(WalkFromJit) >= 2);
  REQUIRE(StaleAfter(1));
}

static const struct {
  const char* name;
  void (*run)(void);
} kCases[] = {{"signal", SignalCase}, {"altstack", AltStackCase}, {"fault", FaultCase},
              {"timer", TimerCase},   {"fiber", FiberCase},       {"fork", ForkCase},
              {"jit", JitCase}};

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  if (strcmp(argv[1], "unprepared") == 0) {
    UnpreparedCase();
    return 0;
  }
  if (strcmp(argv[1], "refused") == 0) {
    RefusedCase();
    return 0;
  }
  PrepareCompare();
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (strcmp(argv[1], kCases[i].name) != 0) continue;
    kCases[i].run();
    return 0;
  }
  return 2;
}
