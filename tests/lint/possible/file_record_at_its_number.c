// The record at the descriptor's number says that it is in use: somebody may close it by that.
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static struct connection {
  int used, state;
} connections[1024];

int serve(int state) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  connections[fd].used = 1;
  connections[fd].state = state;
  return 0;
}
