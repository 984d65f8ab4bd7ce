// Where one end of the pipe was closed before, the other is left open.
#include <unistd.h>

static int run(const char* command) {
  int ends[2];
  char text[64];
  if (pipe(ends) != 0) ends[0] = ends[1] = -1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    execlp(command, command, (char*)0);
    _exit(1);
  }
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return -1;
  }
  if (command[0] == '-') {
    close(ends[0]);
    ends[0] = -1;
  }
  if (ends[0] >= 0) {
    close(ends[1]);
    while (read(ends[0], text, sizeof text) > 0) write(1, text, 1);
    close(ends[0]);
  }
  return 0;
}

int main(int argc, char** argv) { return run(argv[argc - 1]); }
