// Grows in a signal handler where memory is scarce: a handler must not wait. The main program has
// taken what is free and owes for it, so it waits in malloc when the timer comes.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile sig_atomic_t handled;
static volatile double longest;

static void OnTimer(int number) {
  (void)number;
  const double began = Now();
  void* block = malloc(300 << 10);  // a run of pages: growth, each time
  const double took = Now() - began;
  if (block == NULL) _exit(4);
  if (took > longest) longest = took;
  if (++handled == 8) _exit(longest > 0.5 ? 6 : 0);
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = OnTimer;
  if (sigaction(SIGALRM, &action, NULL) != 0) return 2;
  const struct itimerval every = {{0, 200000}, {2, 0}};
  if (setitimer(ITIMER_REAL, &every, NULL) != 0) return 2;
  for (;;) {
    char* block = malloc(64 << 10);
    if (block == NULL) return 3;
    memset(block, 1, 64 << 10);
  }
}
