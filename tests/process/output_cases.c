// Programs whose standard streams and limits stand in the way of the library's output.
#include "../edge/case.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

static int PendingPipe(void) {
  sigset_t pending;
  CHECK(sigpending(&pending) == 0);
  return sigismember(&pending, SIGPIPE);
}

static void BreakStderr(void) {
  int ends[2];
  CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
  close(ends[0]);
  close(ends[1]);
}

// Nobody reads stderr: malloc_stats fails silently, as glibc's does where SIGPIPE is ignored.
CASE(stats_into_a_broken_pipe) {
  const int saved = dup(2);
  BreakStderr();
  malloc_stats();
  CHECK(dup2(saved, 2) == 2);
}

// A SIGPIPE of ours neither appears among the program's, nor takes its own away.
CASE(pending_signals_stay_as_they_are) {
  const int saved = dup(2);
  sigset_t only, before, after;
  sigemptyset(&only);
  sigaddset(&only, SIGPIPE);
  sigaddset(&only, 40);
  BreakStderr();
  CHECK(sigprocmask(SIG_BLOCK, &only, NULL) == 0);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &before) == 0);
  malloc_stats();
  const int after_first = PendingPipe();
  raise(SIGPIPE);
  malloc_stats();
  const int after_second = PendingPipe();
  CHECK(dup2(saved, 2) == 2);
  CHECK(after_first == 0);
  CHECK(after_second == 1);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &after) == 0);
  for (int i = 1; i <= SIGRTMAX; ++i)
    CHECK_AT(sigismember(&before, i) == sigismember(&after, i), i);
}

// The line of a bad free goes nowhere, and the program ends by abort all the same.
CASE(double_free_with_a_broken_stderr) {
  BreakStderr();
  void* p = malloc(1000);
  free(p);
  free(HidePointer(p));
}

// No file may grow, stderr is one: argv[2] is its path.
CASE(no_file_may_grow) {
  CHECK(case_argc == 3);
  const int saved = dup(2);
  const int file = open(case_argv[2], O_WRONLY | O_CREAT, 0600);
  CHECK(file >= 0 && dup2(file, 2) == 2);
  const struct rlimit none = {0, 0};
  CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
  malloc_stats();
  CHECK(dup2(saved, 2) == 2);
}

CASE(small) { free(malloc(1000)); }

CASE(closes_stdout) {
  free(malloc(1000));
  CHECK(fclose(stdout) == 0);
}

// SIGUSR2 is STRATA_PROFILE_SIGNAL's.
CASE(profile_on_a_signal) {
  for (int i = 0; i < 1000; ++i) free(malloc(100000));
  raise(SIGUSR2);
  usleep(500000);
}

// Its data file gets the number of stderr; the library's thread writes now and then.
CASE(data_file_as_stderr) {
  CHECK(case_argc == 3);
  CHECK(close(2) == 0);
  CHECK(open(case_argv[2], O_RDWR | O_CREAT, 0600) == 2);
  for (int i = 0; i < 400; ++i) memset(malloc(60000), 1, 60000);
  usleep(2300000);
}

CASE(works_a_while) {
  for (int i = 0; i < 400; ++i) memset(malloc(60000), 1, 60000);
  usleep(2300000);
}
