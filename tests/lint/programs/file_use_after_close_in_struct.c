// Wrong on purpose: use after close in struct.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct up {
  int fd;
  int st;
};
static void up_close(struct up* u) {
  close(u->fd);
  u->st = 0;
}
static int up_send(struct up* u, const char* b, size_t n) {
  if (write(u->fd, b, n) < 0) {
    up_close(u);
    return -1;
  }
  return 0;
}
int main(int a, char** v) {
  struct up u;
  u.fd = open(v[1], O_WRONLY);
  if (u.fd < 0) return 1;
  up_send(&u, "a", 1);
  if (!u.st) up_close(&u);
  write(u.fd, "x", 1);
  return 0;
}
