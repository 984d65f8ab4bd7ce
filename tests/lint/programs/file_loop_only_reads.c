// Left open, however often the loop is gone round.
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int serve(int most) {
  char bytes[64];
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0) return -1;
  for (int i = 0; i < most; i++) {
    if (read(fd, bytes, sizeof bytes) > 0) puts("read");
  }
  return most;
}
