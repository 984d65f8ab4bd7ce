// A fault of SIGSEGV in programs with handlers of their own, beside the one for guarded blocks.
#include "case.h"

#include <signal.h>

static struct sigaction g_one_before;

static void OnFault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  _exit(3);
}
static void OnFaultInChain(int signal, siginfo_t* info, void* context) {
  g_one_before.sa_sigaction(signal, info, context);
}
static struct sigaction With(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action = {0};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  return action;
}
static void SetHandler(void) {
  const struct sigaction ours = With(OnFault);
  CHECK(sigaction(SIGSEGV, &ours, NULL) == 0);
}

static void UseGuards(void) {
  for (int i = 0; i < 100; ++i) free(HidePointer(malloc(64)));
}
static void UseAfterFree(void) {
  char* p = (char*)malloc(64);
  free(p);
  *(volatile char*)HidePointer(p) = 1;
}
static void FaultElsewhere(void) { *(volatile int*)HidePointer((void*)16) = 1; }

CASE(before) {
  SetHandler();
  UseAfterFree();
}
CASE(for_others) {
  SetHandler();
  UseGuards();
  FaultElsewhere();
}
CASE(after) {
  UseGuards();
  SetHandler();
  UseAfterFree();
}
CASE(none) {
  UseGuards();
  FaultElsewhere();
}

// Where RACED is set, another thread sets a handler just when Strata's is about to be, after it has
// asked which one there is, with the first guarded block; and one over Strata's, which hands on to
// it, as soon as that is there.
static int g_asked, g_over;
int __sigaction(int signal, const struct sigaction* action, struct sigaction* before);
int sigaction(int signal, const struct sigaction* action, struct sigaction* before) {
  const int done = __sigaction(signal, action, before);
  if (signal != SIGSEGV || getenv("RACED") == NULL) return done;
  if (!g_asked && action == NULL) {
    g_asked = 1;
    const struct sigaction other = With(OnFault);
    __sigaction(SIGSEGV, &other, NULL);
  } else if (g_asked && !g_over && getenv("RACED")[0] == '2') {
    g_over = 1;
    const struct sigaction over = With(OnFaultInChain);
    __sigaction(SIGSEGV, &over, &g_one_before);
  }
  return done;
}
CASE(between) {
  UseGuards();
  CHECK(g_asked);
  FaultElsewhere();
}
CASE(between_and_over) {
  UseGuards();
  CHECK(g_over);
  FaultElsewhere();
}
