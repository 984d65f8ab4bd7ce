// Right: who opens for another.
#include <fcntl.h>
#include <unistd.h>

struct s {
  int fd;
};
static int begin(struct s* s, const char* n) {
  s->fd = open(n, 0);
  return s->fd < 0 ? -1 : 0;
}
static void end(struct s* s) { close(s->fd); }
int f(const char* n) {
  struct s s;
  if (begin(&s, n)) return -1;
  char c = 0;
  if (read(s.fd, &c, 1) != 1) {
    end(&s);
    return -1;
  }
  end(&s);
  return c;
}
