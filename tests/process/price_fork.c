// Forks in a signal handler that may have come while the price was looked up: under a filter that
// was there before the program, as in a container, the library cannot keep signals off. Each growth
// looks at a cgroup's files; a hang is ended by the alarm.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void OnTimer(int number) {
  (void)number;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  if (child > 0) waitpid(child, NULL, 0);
}

static int UnderFilter(char** argv) {
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {1, &all};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 3;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 3;
  execl("/proc/self/exe", argv[0], "go", (char*)NULL);
  return 3;
}

int main(int argc, char** argv) {
  if (argc < 2) return UnderFilter(argv);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = OnTimer;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGVTALRM, &action, NULL) != 0) return 2;
  alarm(60);
  enum { kBlocks = 600, kBytes = 128 << 10 };  // 75 MiB
  static char* blocks[kBlocks];
  const struct itimerval often = {{0, 300}, {0, 300}};
  if (setitimer(ITIMER_VIRTUAL, &often, NULL) != 0) return 2;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      blocks[i] = malloc(kBytes);
      if (blocks[i] == NULL) return 4;
      memset(blocks[i], 1, kBytes);
    }
    for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
    malloc_trim(0);  // so that it grows again
  }
  return 0;
}
