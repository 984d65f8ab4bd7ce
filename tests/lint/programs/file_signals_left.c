// A descriptor that takes signals is made, and left where it could be read from.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int wait_for(const sigset_t* set) {
  struct signalfd_siginfo info;
  const int fd = signalfd(-1, set, 0);
  if (fd < 0) return -1;
  if (read(fd, &info, sizeof info) > 0) return (int)info.ssi_signo;
  close(fd);
  return 0;
}

int main(void) {
  sigset_t set;
  sigfillset(&set);
  return wait_for(&set);
}
