// What programs do with threads, forks, timers and identities while they allocate, after what
// glibc's own tests of these ask. All of it holds on glibc 2.36.
#include "../edge/case.h"

#include <dirent.h>
#include <dlfcn.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

enum { kMiB = 1 << 20, kNobody = 65534 };

static atomic_int stop;

static void Churn(uint64_t* random, int operations) {
  enum { kHeld = 32 };
  unsigned char* held[kHeld] = {NULL};
  for (int i = 0; i < operations; ++i) {
    const size_t at = NextRandom(random) % kHeld;
    const size_t size = 1 + NextRandom(random) % (at == 0 ? 3 * kMiB : 20000);
    if (held[at] != NULL) CHECK_AT(held[at][0] == (unsigned char)at, at);
    free(held[at]);
    held[at] = (unsigned char*)malloc(size);
    CHECK_AT(held[at] != NULL, size);
    held[at][0] = held[at][size - 1] = (unsigned char)at;
  }
  for (int at = 0; at < kHeld; ++at) free(held[at]);
}

static void* Busy(void* number) {
  uint64_t random = (uint64_t)(uintptr_t)number * 77 + 1;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) Churn(&random, 200);
  return NULL;
}

static pthread_t busy_ids[4];

static void StartBusy(void) {
  for (uintptr_t i = 0; i < 4; ++i) {
    CHECK(pthread_create(&busy_ids[i], NULL, Busy, (void*)(i + 1)) == 0);
  }
}

static void StopBusy(void) {
  atomic_store(&stop, 1);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(busy_ids[i], NULL) == 0);
}

// Enough in use that the allocator starts whatever it starts for a large process, and garbage.
static void Grow(void) {
  enum { kBlocks = 400 };
  char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = (char*)malloc(100000);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, 100000);
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
}

static void Reap(pid_t child) {
  int status = 0;
  CHECK(child > 0);
  while (waitpid(child, &status, 0) != child) CHECK(errno == EINTR);
  CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 0, status);
}

// ---- cancellation and the end of a thread

static atomic_int passed;

static void* AllocateThenTest(void* unused) {
  CHECK(pthread_cancel(pthread_self()) == 0);
  Grow();
  void* block = realloc(calloc(3, 50), 5 * kMiB);
  CHECK(block != NULL && posix_memalign(&block, 4096, 70000) == 0);
  free(block);
  malloc_trim(0);
  CHECK(mallinfo2().uordblks < (size_t)1 << 40);
  if (case_argc > 2) malloc_stats();
  atomic_store(&passed, 1);
  pthread_testcancel();
  atomic_store(&passed, 2);
  return unused;
}

static void ExpectCancelledAfterwards(void) {
  pthread_t id;
  void* result = NULL;
  CHECK(pthread_create(&id, NULL, AllocateThenTest, NULL) == 0);
  CHECK(pthread_join(id, &result) == 0);
  CHECK_AT(atomic_load(&passed) == 1, atomic_load(&passed));
  CHECK(result == PTHREAD_CANCELED);
}

// With an argument malloc_stats too, which writes.
CASE(no_call_is_a_cancellation_point) { ExpectCancelledAfterwards(); }

static int waiting_pipe[2];
static atomic_int cleaned;

static void FreeHeld(void* held) {
  char* block = (char*)held;
  CHECK(IsPainted(block, 9000, 4));
  block = (char*)realloc(block, 200000);
  CHECK(block != NULL && IsPainted(block, 9000, 4));
  free(block);
  atomic_fetch_add(&cleaned, 1);
}

static void* WaitForEver(void* unused) {
  char* held = (char*)malloc(9000);
  char byte;
  CHECK(held != NULL);
  Paint(held, 9000, 4);
  pthread_cleanup_push(FreeHeld, held);
  CHECK(read(waiting_pipe[0], &byte, 1) < 0);
  pthread_cleanup_pop(1);
  return unused;
}

CASE(cleanup_handlers_allocate) {
  enum { kThreads = 200 };
  static pthread_t ids[kThreads];
  CHECK(pipe(waiting_pipe) == 0);
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&ids[i], NULL, WaitForEver, NULL) == 0);
    if (i % 2 == 0) sched_yield();
  }
  // A thread that has not come to read yet is cancelled there.
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_cancel(ids[i]) == 0);
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
  CHECK_AT(atomic_load(&cleaned) == kThreads, atomic_load(&cleaned));
}

// What C++ makes of the destructor of a thread_local object.
extern int __cxa_thread_atexit_impl(void (*run)(void*), void* object, void* library);
extern void* __dso_handle;

static void DestroyObject(void* object) {
  CHECK(IsPainted(object, 3000, 5));
  free(object);
  free(malloc(kMiB + 1));
  free(calloc(100, 10));
  atomic_fetch_add(&cleaned, 1);
}

static void* MakeObjects(void* leave) {
  for (int i = 0; i < 5; ++i) {
    char* object = (char*)malloc(3000);
    CHECK(object != NULL);
    Paint(object, 3000, 5);
    CHECK(__cxa_thread_atexit_impl(DestroyObject, object, &__dso_handle) == 0);
  }
  if (leave != NULL) pthread_exit(NULL);
  return NULL;
}

CASE(thread_local_destructors_allocate) {
  for (int i = 0; i < 200; ++i) OnAnotherThread(MakeObjects, i % 2 == 0 ? NULL : &stop);
  CHECK_AT(atomic_load(&cleaned) == 1000, atomic_load(&cleaned));
}

static void* UseStack(void* number) {
  volatile char room[20000];
  room[0] = room[sizeof room - 1] = 1;
  uint64_t random = (uint64_t)(uintptr_t)number;
  Churn(&random, 50);
  return room[0] == 1 ? NULL : number;
}

// The stacks of threads are blocks of the heap, and go back to it.
CASE(threads_on_stacks_from_malloc) {
  enum { kSize = 128 * 1024 };
  for (uintptr_t i = 1; i <= 200; ++i) {
    void* stack = NULL;
    pthread_attr_t attributes;
    pthread_t id;
    CHECK(posix_memalign(&stack, 64, kSize) == 0);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, kSize) == 0);
    CHECK(pthread_create(&id, &attributes, UseStack, (void*)i) == 0);
    CHECK(pthread_join(id, NULL) == 0);
    pthread_attr_destroy(&attributes);
    free(stack);
  }
}

static void ForkOnce(void) {
  void* block = malloc(100);
  const pid_t child = fork();
  if (child == 0) {
    free(block);
    free(malloc(3000));
    _exit(0);
  }
  Reap(child);
  free(block);
}

static void Exit(void) { exit(0); }

static ucontext_t outside;

static void RunInCoroutine(void (*run)(void), size_t bytes) {
  static ucontext_t inside;
  CHECK(getcontext(&inside) == 0);
  char* stack =
      (char*)mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && mprotect(stack, 4096, PROT_NONE) == 0);
  inside.uc_stack.ss_sp = stack + 4096;
  inside.uc_stack.ss_size = bytes;
  inside.uc_link = &outside;
  makecontext(&inside, run, 0);
  CHECK(swapcontext(&outside, &inside) == 0);
  CHECK(munmap(stack, bytes + 4096) == 0);
}

CASE(fork_on_a_small_stack) {
  Grow();
  RunInCoroutine(ForkOnce, 8192);
}

CASE(exit_on_a_small_stack) {
  Grow();
  RunInCoroutine(Exit, 8192);
}

// argv[2]: how many of the keys that libc promises may be missing.
CASE(thread_keys_are_left) {
  Grow();
  pthread_key_t key;
  int count = 0;
  while (pthread_key_create(&key, NULL) == 0) {
    CHECK_AT(pthread_setspecific(key, &key) == 0, count);
    ++count;
  }
  CHECK_AT(count >= PTHREAD_KEYS_MAX - atoi(case_argv[2]), count);
}

typedef long (*Touch)(void);
static _Atomic(Touch) touch;
static pthread_barrier_t step;

static void* TouchEachTime(void* rounds) {
  uint64_t random = (uint64_t)(uintptr_t)&random | 1;
  for (int i = 0; i < *(int*)rounds; ++i) {
    pthread_barrier_wait(&step);  // it is loaded
    const Touch here = atomic_load(&touch);
    CHECK_AT(here() == 0 && here() == 1, i);
    Churn(&random, 20);
    CHECK_AT(here() == 2, i);
    pthread_barrier_wait(&step);  // now it goes
  }
  return NULL;
}

// argv[2]: a library with thread-local data (tls_module.c), which comes and goes under threads.
CASE(libraries_with_thread_local_data) {
  int rounds = 60;
  pthread_t ids[4];
  CHECK(pthread_barrier_init(&step, NULL, 5) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&ids[i], NULL, TouchEachTime, &rounds) == 0);
  for (int i = 0; i < rounds; ++i) {
    void* library = dlopen(case_argv[2], RTLD_NOW);
    CHECK(library != NULL);
    atomic_store(&touch, (Touch)dlsym(library, "Touch"));
    CHECK(atomic_load(&touch) != NULL);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    CHECK(dlclose(library) == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(ids[i], NULL) == 0);
}

// ---- signals and timers

// All 64, also those that libc keeps for itself and never lets a program block.
static uint64_t KernelMask(int how, const uint64_t* set) {
  uint64_t old = 0;
  CHECK(syscall(SYS_rt_sigprocmask, how, set, &old, sizeof old) == 0);
  return old;
}

static void* GrowMasked(void* unused) {
  const uint64_t all = ~0ULL;
  KernelMask(SIG_SETMASK, &all);
  const uint64_t before = KernelMask(SIG_BLOCK, NULL);
  CHECK((before >> 31 & 3) == 3);  // 32 and 33
  Grow();
  malloc_trim(0);
  CHECK(KernelMask(SIG_BLOCK, NULL) == before);
  return unused;
}

// Whatever an allocation does at the first opportunity, the caller's mask stays.
CASE(signal_mask_is_kept) { OnAnotherThread(GrowMasked, NULL); }

static atomic_int expired;

static void OnExpiry(union sigval value) {
  (void)value;
  usleep(20000);
  uint64_t random = (uint64_t)atomic_fetch_add(&expired, 1) + 1;
  Churn(&random, 100);
}

// The callbacks of a timer run on threads of libc's, and the one that starts those may be the first
// that allocates after a while: it must have its signal mask back, or the next expiry kills.
CASE(timer_callbacks_allocate) {
  enum { kTimers = 3 };
  timer_t timers[kTimers];
  for (int i = 0; i < kTimers; ++i) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = OnExpiry;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timers[i]) == 0);
    const struct itimerspec often = {{0, 1000000 + i * 300000}, {0, 200000000 + i * 1000000}};
    CHECK(timer_settime(timers[i], 0, &often, NULL) == 0);
  }
  for (int i = 0; i < 2000 && atomic_load(&expired) < 100; ++i) usleep(10000);
  CHECK_AT(atomic_load(&expired) >= 100, atomic_load(&expired));
  for (int i = 0; i < kTimers; ++i) CHECK(timer_delete(timers[i]) == 0);
}

static volatile sig_atomic_t handler_forks;
static volatile sig_atomic_t handler_goes_on = 1;

// One expiry at a time: under load a fork takes longer than the period of a timer that goes on by
// itself, and the interrupted code would never get further.
static void ExpireOnce(void) {
  const struct itimerval once = {{0, 0}, {0, 700}};
  CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
}

static void ForkInHandler(int number) {
  (void)number;
  const int kept = errno;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  Reap(child);
  ++handler_forks;
  if (handler_goes_on) ExpireOnce();
  errno = kept;
}

// One thread, whose handler forks at any moment inside of malloc and free. argv[2]: how
// often; argv[3]: the largest block.
CASE(fork_in_a_handler) {
  enum { kHeld = 1000 };
  static void* held[kHeld];
  const int wanted = atoi(case_argv[2]);
  const size_t largest = strtoull(case_argv[3], NULL, 10);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = ForkInHandler;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  sigset_t alarm_alone;
  sigemptyset(&alarm_alone);
  sigaddset(&alarm_alone, SIGALRM);
  ExpireOnce();
  uint64_t random = 1;
  for (int i = 0; handler_forks < wanted; ++i) {
    const size_t at = NextRandom(&random) % kHeld;
    const size_t size = 1 + NextRandom(&random) % largest;
    free(held[at]);
    held[at] = malloc(size);
    CHECK_AT(held[at] != NULL, size);
    if (i % 1000 == 0) {
      // In a process of several threads glibc's fork holds a lock of its own between the handlers
      // of pthread_atfork: a fork that interrupts another one there waits for itself.
      CHECK(sigprocmask(SIG_BLOCK, &alarm_alone, NULL) == 0);
      const pid_t child = fork();
      if (child == 0) _exit(0);
      CHECK(sigprocmask(SIG_UNBLOCK, &alarm_alone, NULL) == 0);
      Reap(child);
    }
  }
  handler_goes_on = 0;
  const struct itimerval off = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
}

// ---- identity, limits and other programs

static void CheckEveryThread(const char* field, long wanted) {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char text[4096];
    snprintf(text, sizeof text, "/proc/self/task/%s/status", entry->d_name);
    const int file = open(text, O_RDONLY);
    if (file < 0) continue;  // it has just ended
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) continue;
    text[length] = 0;
    const char* line = strstr(text, field);
    CHECK(line != NULL);
    long ids[4];
    CHECK(sscanf(line + strlen(field), "%ld %ld %ld %ld", &ids[0], &ids[1], &ids[2], &ids[3]) == 4);
    for (int i = 0; i < 4; ++i) CHECK_AT(ids[i] == wanted, ids[i]);
  }
  closedir(tasks);
}

// A change of user or group is the whole process's: no thread keeps the old one, the allocator's
// neither.
CASE(identity_changes_for_every_thread) {
  StartBusy();
  Grow();
  for (int i = 0; i < 100; ++i) {
    CHECK(setegid(i % 2 == 0 ? kNobody : 0) == 0);
    CHECK(seteuid(i % 2 == 0 ? kNobody : 0) == 0);
  }
  usleep(100000);
  CHECK(setgroups(0, NULL) == 0);
  CHECK(setresgid(kNobody, kNobody, kNobody) == 0);
  CHECK(setresuid(kNobody, kNobody, kNobody) == 0);
  CheckEveryThread("\nUid:", kNobody);
  CheckEveryThread("\nGid:", kNobody);
  CHECK(setuid(0) != 0 && seteuid(0) != 0);
  Grow();
  StopBusy();
}

static void* NeverStarts(void* unused) { return unused; }

// No thread can be had, for the program or for the allocator.
CASE(allocates_where_no_thread_starts) {
  const struct rlimit none = {0, 0};
  CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
  if (getuid() == 0) CHECK(setresuid(kNobody, kNobody, kNobody) == 0);
  uint64_t random = 9;
  for (int i = 0; i < 500; ++i) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, NeverStarts, NULL) == EAGAIN);
    errno = EXDEV;
    Churn(&random, 20);
    CHECK(errno == EXDEV);
  }
  for (int i = 0; i < 5; ++i) {
    Grow();
    usleep(100000);
  }
}

CASE(was_executed) {
  Grow();
  CHECK(atoi(case_argv[2]) == getpid());
}

static void* Execute(void* unused) {
  char number[24];
  snprintf(number, sizeof number, "%d", getpid());
  Grow();
  execl("/proc/self/exe", case_argv[0], "was_executed", number, (char*)NULL);
  CHECK(!"execl came back");
  return unused;
}

// A thread that is not the first becomes the process, whatever the others are in the middle of.
CASE(exec_from_a_thread) {
  StartBusy();
  Grow();
  OnAnotherThread(Execute, NULL);
}

// fork as the kernel has it, without libc's preparations; old daemons do that. The child allocates
// and drops its rights. A single-threaded program, for libc allows it no more.
CASE(raw_clone_children_allocate) {
  for (int i = 0; i < 15; ++i) {
    free(malloc(100000 + (size_t)i * 200000));
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);
      Grow();
      if (getuid() == 0) CHECK(setresgid(kNobody, kNobody, kNobody) == 0);
      if (getuid() == 0) CHECK(setresuid(kNobody, kNobody, kNobody) == 0);
      Grow();
      _exit(0);
    }
    Reap(child);
  }
}
