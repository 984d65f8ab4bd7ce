// The record lies at another number than the descriptor's, and keeps nothing of it.
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static int made[16];

static int begun(int fd, int kind) {
  made[kind & 15]++;
  return fd < 1024;
}

int serve(int kind) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  if (!begun(fd, kind)) exit(1);
  return 0;
}
