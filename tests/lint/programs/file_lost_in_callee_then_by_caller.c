// Wrong: the caller still has the descriptor behind the callee, and closes it on one way.
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct handle {
  int fd;
};
struct round {
  struct handle* handle;
  char bytes[32];
};

static int see(struct round* r, const struct round* next) {
  memcpy(r, next, sizeof *r);
  return r->bytes[0];
}

int ask(const struct round* next) {
  struct handle h;
  struct round r;
  h.fd = socket(AF_INET, SOCK_STREAM, 0);
  if (h.fd < 0) return -1;
  r.handle = &h;
  int seen = see(&r, next);
  if (seen > 9) close(h.fd);
  return seen;
}
