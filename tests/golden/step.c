/* Executes the fast paths of a preloaded allocator one instruction at a time and prints each one's
   address: lines "NAME OFFSET...", offsets in hex from the library's load address. The program
   starts itself again under LD_PRELOAD, traces it, and lets it call malloc, free, operator new,
   operator delete and sized delete on warm caches.

   A trap inside a restartable sequence would normally abort it. The kernel looks at the rseq_cs
   field only when the traced thread returns to user mode, so clearing the field at each stop keeps
   the sequence alive; nothing else runs on the traced thread, so no restart is needed.

     step LIBRARY              exit 0, or 77 when this machine does not allow tracing
     step LIBRARY stretches    prints "longest N": of 48 calls of malloc for 4 KiB, of which one
   ends the thread's stretch, the instructions of the longest */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  kPaths = 5,
  kRounds = 5,
  kMaxSteps = 4096,
  kWarm = 2000,
  kSize = 64,
  kSkip = 77,
  kPage = 4096,
  kPages = 48
};

struct Plan {
  uint64_t base;    /* where the library is loaded */
  uint64_t rseq_cs; /* the field to clear, 0 without rseq */
  uint64_t entry[kPaths];
};

static const char* const kNames[kPaths] = {"malloc", "free", "operator_new", "operator_delete",
                                           "sized_delete"};
static const char* const kSymbols[kPaths] = {"malloc", "free", "_Znwm", "_ZdlPv", "_ZdlPvm"};

static void* Find(const char* symbol) {
  void* f = dlsym(RTLD_DEFAULT, symbol);
  if (f == NULL) {
    fprintf(stderr, "step: no %s\n", symbol);
    _exit(2);
  }
  return f;
}

/* The traced half: tells the plan through the pipe, warms the caches, then for each round stops
   once and makes the five calls. */
static int Child(int out, int stretches) {
  void* (*alloc)(size_t) = (void* (*)(size_t))Find(kSymbols[0]);
  void (*release)(void*) = (void (*)(void*))Find(kSymbols[1]);
  void* (*make)(size_t) = (void* (*)(size_t))Find(kSymbols[2]);
  void (*destroy)(void*) = (void (*)(void*))Find(kSymbols[3]);
  void (*destroy_sized)(void*, size_t) = (void (*)(void*, size_t))Find(kSymbols[4]);

  struct Plan plan = {0};
  Dl_info info;
  if (dladdr((void*)alloc, &info) == 0) return 2;
  plan.base = (uint64_t)info.dli_fbase;
  if (__rseq_size != 0) {
    plan.rseq_cs = (uint64_t)__builtin_thread_pointer() + (uint64_t)__rseq_offset +
                   offsetof(struct rseq, rseq_cs);
  }
  for (int i = 0; i < kPaths; i++) plan.entry[i] = (uint64_t)Find(kSymbols[i]);

  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) return kSkip;
  if (write(out, &plan, sizeof plan) != sizeof plan) return 2;
  static void* blocks[kWarm];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < kWarm; i++) blocks[i] = alloc(kSize);
    for (int i = 0; i < kWarm; i++) release(blocks[i]);
    for (int i = 0; i < kWarm / 2; i++) blocks[i] = alloc(kSize);
  }
  for (int round = 0; stretches && round < kRounds; round++) {
    for (int i = 0; i < kPages; i++) release(alloc(kPage));
    raise(SIGSTOP);
    for (int i = 0; i < kPages; i++) release(alloc(kPage));
    raise(SIGSTOP);
  }
  for (int round = 0; !stretches && round < kRounds; round++) {
    raise(SIGSTOP);
    void* a = alloc(kSize);
    release(a);
    a = make(kSize);
    destroy(a);
    a = make(kSize);
    destroy_sized(a, kSize);
    raise(SIGSTOP);
  }
  return 0;
}

/* Keeps the sequence alive, too; see the top. 0 where the round ends, or -1. */
static int Step(pid_t pid, const struct Plan* plan) {
  int status = 0;
  if (plan->rseq_cs != 0) ptrace(PTRACE_POKEDATA, pid, (void*)plan->rseq_cs, NULL);
  if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0) return -1;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return -1;
  if (WSTOPSIG(status) == SIGSTOP) return 0;
  return WSTOPSIG(status) == SIGTRAP ? 1 : -1;
}

/* Steps over one round; records for each path the run from its entry to its return. */
static int StepRound(pid_t pid, const struct Plan* plan, uint64_t steps[kPaths][kMaxSteps],
                     int counts[kPaths]) {
  int inside = -1;
  uint64_t entry_sp = 0;
  memset(counts, 0, sizeof(int) * kPaths);
  for (;;) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) != 0) return -1;
    if (inside >= 0 && regs.rsp > entry_sp) inside = -1;
    for (int i = 0; inside < 0 && i < kPaths; i++) {
      if (regs.rip == plan->entry[i] && counts[i] == 0) {
        inside = i;
        entry_sp = regs.rsp;
      }
    }
    if (inside >= 0) {
      /* A move to another processor took the slow path: too long to be the best round. */
      if (counts[inside] < kMaxSteps) steps[inside][counts[inside]++] = regs.rip - plan->base;
    }
    const int more = Step(pid, plan);
    if (more <= 0) return more;
  }
}

/* Steps over one round; the instructions of the longest call of malloc, or -1. */
static int StepCalls(pid_t pid, const struct Plan* plan) {
  int longest = 0, count = 0, more;
  uint64_t entry_sp = 0;
  do {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) != 0) return -1;
    if (count != 0 && regs.rsp > entry_sp) count = 0;
    if (count == 0 && regs.rip == plan->entry[0]) entry_sp = regs.rsp;
    if (count != 0 || regs.rip == plan->entry[0]) count++;
    if (count > longest) longest = count;
    more = Step(pid, plan);
  } while (more > 0);
  return more < 0 ? -1 : longest;
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "--child") == 0) return Child(atoi(argv[2]), atoi(argv[3]));
  const int stretches = argc == 3 && strcmp(argv[2], "stretches") == 0;
  if (argc != 2 && !stretches) return 2;
  int ends[2];
  if (pipe(ends) != 0) return 2;
  pid_t pid = fork();
  if (pid == 0) {
    char fd[16];
    snprintf(fd, sizeof fd, "%d", ends[1]);
    setenv("LD_PRELOAD", argv[1], 1);
    if (!stretches) setenv("STRATA_BACKGROUND", "off", 1); /* nobody else moves the caches */
    execl("/proc/self/exe", argv[0], "--child", fd, stretches ? "1" : "0", (char*)NULL);
    _exit(2);
  }
  struct Plan plan;
  close(ends[1]);
  if (read(ends[0], &plan, sizeof plan) != sizeof plan) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
  }

  if (stretches) {
    /* One of them may be a guard's turn, or move to another processor: not in every round. */
    int least = -1, stopped = 0;
    for (int round = 0; round < kRounds; round++) {
      if (waitpid(pid, &stopped, 0) != pid || !WIFSTOPPED(stopped)) return 2;
      const int longest = StepCalls(pid, &plan);
      if (longest < 0) return 2;
      if (least < 0 || longest < least) least = longest;
      ptrace(PTRACE_CONT, pid, NULL, NULL);
    }
    waitpid(pid, &stopped, 0);
    printf("longest %d\n", least);
    return 0;
  }

  /* A timer tick may still land between two stops and restart a sequence: of the rounds, the
     shortest run of each path is the one without. */
  static uint64_t steps[kPaths][kMaxSteps], best[kPaths][kMaxSteps];
  int counts[kPaths], best_counts[kPaths] = {0}, status = 0;
  for (int round = 0; round < kRounds; round++) {
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return 2;
    if (StepRound(pid, &plan, steps, counts) != 0) return 2;
    for (int i = 0; i < kPaths; i++) {
      if (best_counts[i] == 0 || counts[i] < best_counts[i]) {
        best_counts[i] = counts[i];
        memcpy(best[i], steps[i], sizeof best[i]);
      }
    }
    ptrace(PTRACE_CONT, pid, NULL, NULL);
  }
  waitpid(pid, &status, 0);
  for (int i = 0; i < kPaths; i++) {
    printf("%s", kNames[i]);
    for (int k = 0; k < best_counts[i]; k++) printf(" %lx", best[i][k]);
    printf("\n");
  }
  return 0;
}
