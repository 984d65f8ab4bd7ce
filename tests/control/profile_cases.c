// Programs whose profiles the tests fetch: a known amount lives, and is allocated at a known rate.
#include "case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void Tell(const char* text) { CHECK(write(STDOUT_FILENO, text, strlen(text)) > 0); }

__attribute__((noinline)) static void* HoldsMemory(size_t size) {
  void* block = malloc(size);
  CHECK(block != NULL);
  memset(block, 1, size);
  return block;
}

static void* held[4096];

// 32 MiB in blocks of 8 KiB.
static void Hold(void) {
  for (int i = 0; i < 4096; ++i) held[i] = HoldsMemory(8 << 10);
}

CASE(hold) {
  Hold();
  Tell("ready\n");
  while (1) pause();
}

CASE(hold_and_end) { Hold(); }

// A program at rest that bursts: its first megabytes come after the first second.
CASE(sleep_and_hold) {
  usleep(1500000);
  Hold();
  Tell("ready\n");
  while (1) pause();
}

// Allocates and frees about 20 MiB a second on top.
CASE(churn) {
  Hold();
  Tell("ready\n");
  while (1) {
    for (int i = 0; i < 20; ++i) free(HoldsMemory(100 << 10));
    usleep(100000);
  }
}

static void Mine(int number) {
  (void)number;
  Tell("mine\n");
}

// The program takes the signal for itself after the library has: it gets it, and stays alive.
CASE(takes_the_signal) {
  Hold();
  struct sigaction action = {0};
  action.sa_handler = Mine;
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  Tell("ready\n");
  while (1) pause();
}

// Every thread of the program blocks the signal and waits for it: the library must not take it.
CASE(waits_for_the_signal) {
  sigset_t set;
  int number = 0;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  Hold();
  Tell("ready\n");
  for (int i = 0; i < 3; ++i) {
    usleep(300000);
    CHECK(sigwait(&set, &number) == 0);
    Tell("mine\n");
  }
}

CASE(forks_and_ends) {
  Hold();
  const pid_t child = fork();
  if (child == 0) exit(0);
  CHECK(waitpid(child, NULL, 0) == child);
}
