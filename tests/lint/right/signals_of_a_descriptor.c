// Right: the descriptor that takes signals is there; it is told of others.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int signals = -1;

static void take(const sigset_t* set) {
  if (signals != -1) signalfd(signals, set, 0);
}

int main(int argc, char** argv) {
  (void)argv;
  sigset_t set;
  sigemptyset(&set);
  signals = signalfd(-1, &set, 0);
  if (signals < 0) return 1;
  sigaddset(&set, argc);
  take(&set);
  close(signals);
  return 0;
}
