// Right: the pipe is there to fill the numbers 0 to 2, and stays.
#include <fcntl.h>
#include <unistd.h>

int fill(void) {
  int fd[2];
  while (fcntl(0, F_GETFD) == -1 || fcntl(1, F_GETFD) == -1 || fcntl(2, F_GETFD) == -1) {
    if (pipe(fd)) return 1;
  }
  return 0;
}
