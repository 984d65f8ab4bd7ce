// The first process of a machine (machine.py): runs each line of /commands, prints
// how it ended, and switches the machine off.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int Run(char* line) {
  enum { kMost = 32 };
  char* words[kMost + 1] = {0};
  char* environment[kMost + 1] = {(char*)"HOME=/"};
  int n = 0, variables = 1;
  for (char* word = strtok(line, " "); word != NULL && n < kMost; word = strtok(NULL, " ")) {
    if (n == 0 && strchr(word, '=') != NULL && variables < kMost)
      environment[variables++] = word;
    else
      words[n++] = word;
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(1, 2);
    alarm(300);
    execve(words[0], words, environment);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void) {
  mkdir("/proc", 0755);
  mkdir("/sys", 0755);
  mkdir("/tmp", 0777);
  mount("proc", "/proc", "proc", 0, NULL);
  mount("sysfs", "/sys", "sysfs", 0, NULL);
  mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
  FILE* commands = fopen("/commands", "r");
  char line[1024];
  for (int i = 0; commands != NULL && fgets(line, sizeof line, commands) != NULL; ++i) {
    line[strcspn(line, "\n")] = 0;
    printf("\n== begin %d %s\n", i, line);  // the machine may have begun the line
    fflush(stdout);
    const int status = Run(line);
    printf("== end %d %d\n", i, status);
    fflush(stdout);
  }
  printf("== all done\n");
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}
