// Programs that the control socket has to reach: each gets into a state, says "ready" on stdout
// and stays there until it is killed. Before "ready" it prints what the test wants to know.
#include "case.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void Ready(void) {
  static const char kText[] = "ready\n";
  CHECK(write(STDOUT_FILENO, kText, sizeof kText - 1) > 0);
  while (1) pause();
}

static int Threads(void) {
  struct stat tasks;
  CHECK(stat("/proc/self/task", &tasks) == 0);
  return (int)tasks.st_nlink - 2;
}

// Until the library's thread is there and has had time to open what it opens; not without one.
static void WaitForThread(void) {
  const char* preload = getenv("LD_PRELOAD");
  const int comes = preload != NULL && *preload != 0;
  for (int i = 0; comes && Threads() < 2 && i < 6000; ++i) usleep(5000);
  usleep(200000);
}

static char* hold[64];

// 10 MiB in use: past the mark from which a process gets its thread.
static void Grow(void) {
  for (int i = 0; i < 64; ++i) {
    hold[i] = (char*)malloc(160 << 10);
    CHECK(hold[i] != NULL);
    memset(hold[i], 1, 160 << 10);
  }
}

// After a change of its user the thread comes with the first miss a second later.
static void BringThreadBack(void) {
  usleep(1200000);
  for (int i = 0; i < 64; ++i) {
    free(hold[i]);
    hold[i] = (char*)malloc(200 << 10);
    CHECK(hold[i] != NULL);
  }
  WaitForThread();
}

// Allocates at its start and never again.
CASE(grow_and_sleep) {
  Grow();
  Ready();
}

// Has next to nothing and allocates nothing after its start.
CASE(tiny) { Ready(); }

// Closes everything it can, and everything that anybody may have opened in its table.
CASE(close_everything) {
  Grow();
  WaitForThread();
  const int out = dup(STDOUT_FILENO);
  for (int fd = 3; fd < 1024; ++fd) {
    if (fd != out) close(fd);
  }
  Ready();
}

// As a daemon does: two forks, a session, no descriptor. Prints the pid that stays.
CASE(daemonize) {
  Grow();
  if (fork() != 0) _exit(0);
  setsid();
  const pid_t pid = fork();
  if (pid != 0) {
    printf("%d\n", pid);
    fflush(stdout);
    _exit(0);
  }
  CHECK(chdir("/") == 0);
  for (int fd = 0; fd < 1024; ++fd) {
    if (fd != STDOUT_FILENO) close(fd);
  }
  usleep(60000);            // a child that lives on
  free(malloc(300 << 10));  // first need
  Ready();
}

// Opens files before and after the thread comes: the numbers are the lowest, as without Strata.
CASE(descriptor_numbers) {
  const int before = open("/dev/null", O_RDONLY);
  Grow();
  WaitForThread();
  const int after = open("/dev/null", O_RDONLY);
  const int next = open("/dev/null", O_RDONLY);
  printf("%d %d %d\n", before, after, next);
  fflush(stdout);
  Ready();
}

// A child that allocates gets a socket of its own. Prints its pid.
CASE(fork_and_grow) {
  Grow();
  WaitForThread();
  const pid_t child = fork();
  if (child == 0) {
    usleep(60000);
    free(malloc(300 << 10));
    while (1) pause();
  }
  printf("%d\n", child);
  fflush(stdout);
  Ready();
}

// A child that allocates at once, as one does before it becomes another program. Prints how many
// threads it has, or that it took too long for that to mean anything.
CASE(fork_and_allocate_at_once) {
  Grow();
  WaitForThread();
  struct timespec begin, end;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 20; ++i) free(malloc((size_t)(300 + i) << 10));
    const int threads = Threads();
    CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    const long ns = (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
    if (ns < 40000000) {
      printf("%d\n", threads);
    } else {
      printf("too slow\n");
    }
    exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  Ready();
}

// Enough for the thread even if nobody may ask anything.
CASE(grow_large) {
  for (int i = 0; i < 64; ++i) {
    hold[i] = (char*)malloc(256 << 10);
    CHECK(hold[i] != NULL);
  }
  Ready();
}

// Asks for something that only the thread can do, when it has been running for a while.
CASE(set_an_interval_later) {
  int (*set)(const char*, const char*) =
      (int (*)(const char*, const char*))(uintptr_t)dlsym(RTLD_DEFAULT, "strata_set");
  CHECK(set != NULL);
  Grow();
  CHECK(set("stats_interval", "1") == 0);
  for (int i = 0; i < 20; ++i) free(malloc((size_t)(300 + i) << 10));
  Ready();
}

static volatile sig_atomic_t told;
static void Told(int number) { told = number; }

// Gets its thread when it is told to, by SIGUSR1.
CASE(grow_when_told) {
  signal(SIGUSR1, Told);
  CHECK(write(STDOUT_FILENO, "ready\n", 6) == 6);
  while (!told) usleep(1000);
  Grow();
  while (1) pause();
}

// Is allowed no descriptor any more, once its thread polls.
CASE(no_descriptors) {
  const struct rlimit none = {0, 0};
  Grow();
  WaitForThread();
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  Ready();
}

// Becomes a program that never gets a thread.
CASE(exec_tiny) {
  Grow();
  WaitForThread();
  char* const args[] = {(char*)"control_cases", (char*)"tiny", NULL};
  execv("/proc/self/exe", args);
}

static void* Work(void* unused) {
  usleep(400000);
  fputs("kept in a buffer until exit\n", stdout);  // stdout is a pipe: not written before exit
  return unused;
}

// The process ends with its last thread, and exit flushes what was printed.
CASE(main_leaves) {
  pthread_t thread;
  Grow();
  WaitForThread();
  CHECK(pthread_create(&thread, NULL, Work, NULL) == 0);
  pthread_exit(NULL);
}

// An empty signal set for the whole process: the profile signal is not handled by the program.
CASE(own_handler) {
  Grow();
  struct sigaction action = {0};
  action.sa_handler = SIG_IGN;
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  Ready();
}

// The kernel shows a process that changed its user to root alone.
CASE(set_user) {
  Grow();
  WaitForThread();
  CHECK(setuid(65534) == 0);
  BringThreadBack();
  Ready();
}

// Unless it allows it again.
CASE(set_user_and_show) {
  Grow();
  WaitForThread();
  CHECK(setgid(65534) == 0 && setuid(65534) == 0);
  BringThreadBack();
  CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
  Ready();
}

// A small worker that gives up its user, as a server's: its first allocation of all is initgroups'.
CASE(fork_and_become_a_worker) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child != 0) {
    printf("%d\n", (int)child);
    fflush(stdout);
    Ready();
  }
  CHECK(setgid(65534) == 0 && initgroups("nobody", 65534) == 0 && setuid(65534) == 0);
  usleep(1200000);
  while (1) {
    free(malloc(8000));
    usleep(1000);
  }
}

// Makes itself the impostor for its next program: a child holds a socket that listens under this
// process's number, and this process becomes one that has Strata's own. Arguments: the user to
// listen as, and "kept" if this process keeps the socket too.
CASE(impostor_then_exec) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int length =
      snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "strata-control/%d", getpid());
  CHECK(case_argc == 4);
  const int kept = strcmp(case_argv[3], "kept") == 0;
  const int fd = socket(AF_UNIX, SOCK_STREAM | (kept ? 0 : SOCK_CLOEXEC), 0);
  CHECK(seteuid((uid_t)atoi(case_argv[2])) == 0);
  CHECK(bind(fd, (struct sockaddr*)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
  CHECK(listen(fd, 16) == 0);
  CHECK(seteuid(0) == 0);
  if (fork() == 0) {
    for (;;) {
      static const char kAnswer[] = "ok 12\nof another\n";
      char line[2000];
      const int link = accept(fd, NULL, NULL);
      struct timeval patience = {1, 0};
      setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      if (read(link, line, sizeof line) > 0) {
        CHECK(write(STDERR_FILENO, "asked\n", 6) == 6);
        CHECK(write(link, kAnswer, sizeof kAnswer - 1) > 0);
      }
      close(link);
    }
  }
  char* const args[] = {(char*)"control_cases", (char*)"grow_and_sleep", NULL};
  execv("/proc/self/exe", args);
}
