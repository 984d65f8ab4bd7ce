// What a program may give up, and what a thread of which it knows nothing must not keep. Each case
// is silent if it holds; those that need root say so in test_guest.py.
#include "case.h"

#include <dirent.h>
#include <dlfcn.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void* held[20000];

static void Fill(size_t bytes) {
  for (size_t i = 0; i < sizeof held / sizeof *held; ++i) {
    free(held[i]);
    held[i] = malloc(bytes);
    CHECK(held[i] != NULL);
    memset(held[i], 1, bytes);
  }
}

// Above what a process must have in use before it gets a thread. Each time other sizes: what comes
// from a cache asks for nothing.
static void GrowLarge(void) {
  static size_t bytes = 2000;
  Fill(bytes);
  bytes = bytes < 4000 ? bytes + 100 : 1000;
}

static int HasName(const char* task, const char* wanted) {
  char path[300];
  char name[32] = "";
  snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
  const int file = open(path, O_RDONLY);
  if (file < 0) return 0;
  const ssize_t n = read(file, name, sizeof name - 1);
  close(file);
  return n > 1 && strncmp(name, wanted, (size_t)n - 1) == 0;
}

// The library's thread, or 0.
static pid_t FindThread(void) {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  pid_t found = 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    if (HasName(entry->d_name, "strata")) found = atoi(entry->d_name);
  }
  closedir(tasks);
  return found;
}

static pid_t AwaitThread(void) {
  for (int i = 0; i < 500; ++i) {
    GrowLarge();
    const pid_t tid = FindThread();
    if (tid != 0) return tid;
    usleep(20000);
  }
  CHECK(!"no thread of the library's after ten seconds");
  return 0;
}

static void Status(pid_t tid, const char* field, char* out, size_t n) {
  char path[64];
  char text[8192];
  snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
  const int file = open(path, O_RDONLY);
  CHECK(file >= 0);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  CHECK(length > 0);
  text[length] = 0;
  const char* line = strstr(text, field);
  CHECK(line != NULL);
  line += strlen(field);
  line += strspn(line, " \t");
  snprintf(out, n, "%.*s", (int)strcspn(line, "\n"), line);
}

CASE(small_process_has_no_thread) {
  for (int i = 0; i < 100; ++i) {
    for (size_t k = 0; k < 2000; ++k) {
      free(held[k]);
      held[k] = malloc(1000);
    }
    usleep(2000);
  }
  CHECK(FindThread() == 0);
  AwaitThread();
}

// libc takes their room from the thread's stack.
#ifndef THREAD_LOCAL_BYTES
#define THREAD_LOCAL_BYTES 1
#endif
CASE(thread_starts_beside_thread_local_variables) {
  static _Thread_local volatile char own[THREAD_LOCAL_BYTES];
  own[0] = 1;
  CHECK(AwaitThread() != 0);
  CHECK(own[0] == 1);
}

CASE(thread_has_no_privileges) {
  const struct sched_param fifo = {.sched_priority = 1};
  const int real_time = sched_setscheduler(0, SCHED_FIFO, &fifo) == 0;
  const pid_t tid = AwaitThread();
  usleep(200000);
  char text[64];
  Status(tid, "CapPrm:", text, sizeof text);
  CHECK(strspn(text, "0") == strlen(text));
  Status(tid, "CapEff:", text, sizeof text);
  CHECK(strspn(text, "0") == strlen(text));
  Status(tid, "NoNewPrivs:", text, sizeof text);
  CHECK(text[0] == '1');
  CHECK(sched_getscheduler(tid) == SCHED_OTHER);
  CHECK(!real_time || sched_getscheduler(0) == SCHED_FIFO);
}

CASE(thread_holds_nothing_that_leads_anywhere) {
  const pid_t tid = AwaitThread();
  usleep(200000);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/fd", tid);
  DIR* files = opendir(path);
  CHECK(files != NULL);
  int seen = 0;
  for (struct dirent* entry; (entry = readdir(files)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char link[400];
    char to[400] = "";
    snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
    CHECK(readlink(link, to, sizeof to - 1) > 0);
    if (to[0] == '/') fprintf(stderr, "%s leads to %s\n", link, to);
    CHECK(to[0] != '/');
    ++seen;
  }
  closedir(files);
  CHECK(seen > 0);
}

// The bare system call, which no library sees.
static long Bare(long number, long a, long b, long c) {
  long result = number;
  register long zero asm("r10") = 0;
  register long zero8 asm("r8") = 0;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(zero), "r"(zero8)
               : "rcx", "r11", "memory");
  return result;
}

CASE(main_leaves_by_the_bare_call) {
  AwaitThread();
  Bare(SYS_exit, 7, 0, 0);
}

static int FilterThatKillsTheThread(int number) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (Bare(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0) return -1;
  return (int)Bare(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
}

CASE(main_is_killed_alone) {
  AwaitThread();
  CHECK(FilterThatKillsTheThread(SYS_getppid) == 0);
  getppid();
  CHECK(!"the filter let it pass");
}

// A tool's pthread_create, found before libc's.
static int g_mine;

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* arg) {
  CHECK(g_mine);
  int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT,
                                                                                 "pthread_create");
  return next(thread, attributes, run, arg);
}

static void* ExitLater(void* arg) {
  (void)arg;
  usleep(300000);
  exit(7);
}

CASE(main_leaves_by_pthread_exit_with_another_there) {
  AwaitThread();
  g_mine = 1;
  pthread_t other;
  CHECK(pthread_create(&other, NULL, ExitLater, NULL) == 0);
  pthread_exit(NULL);
}

// In a child of its own, which ends with what `run` returns.
static void InAChild(int (*run)(int), int number) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(run(number));
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 0, number * 100 + WEXITSTATUS(status));
}

static int LeaveNamespaces(int number) {
  (void)number;
  AwaitThread();
  if (unshare(CLONE_NEWUSER) != 0) return 1;
  if (FindThread() != 0) return 2;
  const int user = open("/proc/self/ns/user", O_RDONLY);
  AwaitThread();
  // One's own is refused whatever the threads; the thread is gone all the same.
  if (setns(user, 0) == 0) return 3;
  if (FindThread() != 0) return 4;
  AwaitThread();
  if (syscall(SYS_unshare, CLONE_NEWNET) != 0) return 5;
  return FindThread() != 0 ? 6 : 0;
}

CASE(namespaces_can_be_left) {
  for (int i = 0; i < 3; ++i) InAChild(LeaveNamespaces, i);
}

CASE(another_namespace_can_be_entered) {
  int to_parent[2];
  CHECK(pipe(to_parent) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(1);
    if (write(to_parent[1], "", 1) != 1) _exit(1);
    pause();
  }
  char byte;
  CHECK(read(to_parent[0], &byte, 1) == 1);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/user", child);
  const int user = open(path, O_RDONLY);
  CHECK(user >= 0);
  AwaitThread();
  CHECK(setns(user, CLONE_NEWUSER) == 0);
  CHECK(FindThread() == 0);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

CASE(thread_is_gone_before_new_privileges_are) {
  AwaitThread();
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(FindThread() == 0);
  for (int i = 0; i < 15; ++i) {
    Fill(2000 + (size_t)i);
    usleep(100000);
  }
  CHECK(FindThread() == 0);
}

// A probe for support, which the kernel refuses, confines nobody.
CASE(a_refused_filter_confines_nobody) {
  AwaitThread();
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1 && errno == EFAULT);
  CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
  AwaitThread();
}

static void* GrowOnOneCpu(void* arg) {
  const cpu_set_t* one = (const cpu_set_t*)arg;
  CHECK(pthread_setaffinity_np(pthread_self(), sizeof *one, one) == 0);
  AwaitThread();
  return NULL;
}

CASE(thread_runs_where_the_main_thread_does) {
  cpu_set_t all, one, its;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  g_mine = 1;
  pthread_t bound;
  CHECK(pthread_create(&bound, NULL, GrowOnOneCpu, &one) == 0);
  CHECK(pthread_join(bound, NULL) == 0);
  usleep(100000);
  CHECK(sched_getaffinity(FindThread(), sizeof its, &its) == 0);
  CHECK(CPU_EQUAL(&its, &all));
}

// What no library can see is noticed within a round or two.
CASE(thread_follows_what_is_done_unseen) {
  AwaitThread();
  CHECK(Bare(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) == 0);
  int rounds = 0;
  while (FindThread() != 0 && ++rounds < 100) usleep(100000);
  CHECK(FindThread() == 0);
}

// By the bare call through libc, a thread alone changes: ours must not stay root.
CASE(identity_is_changed_by_the_system_call) {
  const pid_t tid = AwaitThread();
  CHECK(syscall(SYS_setresuid, 65534, 65534, 65534) == 0);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d", tid);
  CHECK(access(path, F_OK) != 0);
}

static int GiveUp(int how) {
  const gid_t group = 65534;
  AwaitThread();
  switch (how) {
    case 0:
      return setgroups(1, &group);
    case 1:
      return initgroups("nobody", group);
    case 2:
      return setgid(group);
    case 3:
      return setegid(group);
    case 4:
      return setregid(group, group);
    case 5:
      return setresgid(group, group, group);
    case 6:
      return setuid(65534);
    case 7:
      return seteuid(65534);
    case 8:
      return setreuid(65534, 65534);
    default:
      return setresuid(65534, 65534, 65534);
  }
}

// libc ends a process of which one thread could change its identity and another could not.
CASE(identity_is_given_up_in_every_way) {
  for (int how = 0; how < 10; ++how) InAChild(GiveUp, how);
}

static int GetsAThread(int number) {
  (void)number;
  AwaitThread();
  return 0;
}

// No fork handler runs there.
CASE(a_child_that_nobody_sees_made_has_its_own) {
  AwaitThread();
  const pid_t child = _Fork();
  CHECK(child >= 0);
  if (child == 0) _exit(GetsAThread(0));
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

CASE(a_child_of_a_vfork_childs_has_its_own) {
  const pid_t child = vfork();
  if (child == 0) {
    InAChild(GetsAThread, 0);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static volatile pid_t g_wanted;
static volatile long g_steps;

static void* CountSteps(void* arg) {
  if (gettid() == g_wanted) {
    for (;; usleep(1000)) ++g_steps;
  }
  return arg;
}

// STRATA_PROFILE_SIGNAL=12. The next thread may have the number that the library's had.
CASE(a_thread_with_its_number_is_left_alone) {
  const pid_t tid = AwaitThread();
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  g_wanted = tid;
  g_mine = 1;
  for (int i = 0; i < 100 && g_steps == 0; ++i) {
    char text[16];
    const int n = snprintf(text, sizeof text, "%d", tid - 1);
    const int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (file < 0 || write(file, text, (size_t)n) != n) return;  // not ours to say
    close(file);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, CountSteps, NULL) == 0);
    usleep(20000);
  }
  CHECK(g_steps != 0);
  CHECK(kill(getpid(), SIGUSR2) == 0);
  usleep(100000);
  const long before = g_steps;
  usleep(200000);
  CHECK(g_steps > before);
}

// Whose thread moves objects: not the one that has a name.
static void MakeHotDomain(int threads) {
  void* (*make)(void*) = (void* (*)(void*))dlsym(RTLD_DEFAULT, "strata_hot_domain_create");
  CHECK(make != NULL && make(NULL) != NULL);
  char text[16];
  Status(getpid(), "Threads:", text, sizeof text);
  CHECK(atoi(text) == threads);
}

static int LeaveBesideMoves(int number) {
  (void)number;
  MakeHotDomain(2);
  return unshare(CLONE_NEWUSER) != 0;
}

CASE(namespaces_can_be_left_beside_moving_objects) { InAChild(LeaveBesideMoves, 0); }

CASE(main_leaves_beside_moving_objects) {
  MakeHotDomain(2);
  usleep(50000);
  pthread_exit(NULL);
}

// Both threads of the library are left, and look for the program about once a second. That they do
// so in the same moment took 1,200 pairs once: kPairs = 400 for a search.
CASE(main_leaves_two_threads_by_the_bare_call) {
  enum { kPairs = 8 };
  pid_t children[kPairs];
  for (int i = 0; i < kPairs; ++i) {
    children[i] = fork();
    CHECK(children[i] >= 0);
    if (children[i] != 0) continue;
    AwaitThread();
    MakeHotDomain(3);
    Bare(SYS_exit, 7, 0, 0);
  }
  for (int i = 0; i < kPairs; ++i) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 7, status);
  }
  exit(7);
}

// STRATA_STATS=a full pipe, STRATA_STATS_INTERVAL=1.
CASE(identity_is_given_up_while_nobody_reads) {
  AwaitThread();
  usleep(1500000);
  CHECK(seteuid(65534) == 0);
}

CASE(a_tools_pthread_create_is_not_called) {
  AwaitThread();
  g_mine = 1;
}

// Without a thread the program's own calls give back what it freed.
CASE(memory_goes_back_by_the_programs_calls) {
  AwaitThread();
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  enum { kBlocks = 300, kBytes = 1 << 20 };
  static char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, kBytes);
  }
  const size_t full = Resident();
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  size_t now = full;
  for (int i = 0; i < 400 && now > full - (size_t)kBlocks * kBytes / 2; ++i) {
    usleep(50000);
    free(malloc(400000));
    now = Resident();
  }
  CHECK_AT(now <= full - (size_t)kBlocks * kBytes / 2, now);
}
