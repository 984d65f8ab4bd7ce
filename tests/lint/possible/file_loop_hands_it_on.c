// Never closed only if no thread is to serve the socket, and somebody takes care of that.
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct work {
  struct work* next;
  int fd;
};
static struct work* queue;
static int threads = 1;

static void hand_on(int fd) {
  struct work* w = malloc(sizeof *w);
  if (!w) abort();
  w->fd = fd;
  w->next = queue;
  queue = w;
}

void set_threads(int n) { threads = n < 1 ? 1 : n; }

int serve(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0) return -1;
  for (int i = 0; i < threads; i++) hand_on(i == 0 ? fd : dup(fd));
  return 0;
}
