// Wrong on purpose: log through struct ops.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct ops {
  void (*log)(const char*, ...);
};
static void le(const char* f, ...) {
  va_list a;
  va_start(a, f);
  vfprintf(stderr, f, a);
  va_end(a);
}
static const struct ops O = {le};
struct sess {
  char nick[32];
  char line[256];
  const struct ops* o;
};
static int rd(struct sess* s, int fd) {
  ssize_t n = recv(fd, s->line, sizeof s->line - 1, 0);
  if (n <= 0) return -1;
  s->line[n] = 0;
  return 0;
}
static void cmd(struct sess* s) {
  char* p = strchr(s->line, ' ');
  if (!p) return;
  s->o->log(p + 1);
}
int main(void) {
  static struct sess s;
  s.o = &O;
  while (!rd(&s, 0)) cmd(&s);
  return 0;
}
