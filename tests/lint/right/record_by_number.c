// Right: what knows the descriptor lies at its number in a table.
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct connection {
  int fd;
  int state;
};
static struct connection* connections[1024];

static struct connection* connection(int fd) {
  if (fd >= 1024) abort();
  struct connection* c = connections[fd];
  if (!c) {
    c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->fd = fd;
    connections[fd] = c;
  }
  c->state = 1;
  return c;
}

int serve(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  if (!connection(fd)) exit(1);
  return 0;
}
