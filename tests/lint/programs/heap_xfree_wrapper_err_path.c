// Wrong on purpose: xfree wrapper err path.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void* xmalloc(size_t n) {
  void* p = malloc(n);
  if (!p) {
    perror("m");
    exit(1);
  }
  return p;
}
static void xfree(void* p) {
  if (p) free(p);
}
struct conn {
  int fd;
  char* buf;
  struct conn* next;
};
static int parse(struct conn* c, const char* s) {
  if (!*s) return -1;
  c->buf[0] = *s;
  return 0;
}
static void conn_destroy(struct conn* c) {
  xfree(c->buf);
  xfree(c);
}
static int handle(struct conn* c, const char* s) {
  if (parse(c, s) < 0) {
    conn_destroy(c);
    return -1;
  }
  return 0;
}
int main(int a, char** v) {
  struct conn* c = xmalloc(sizeof *c);
  c->buf = xmalloc(64);
  c->fd = a;
  if (handle(c, v[1]) < 0) {
    fprintf(stderr, "bad on %d\n", c->fd);
    return 1;
  }
  conn_destroy(c);
  return 0;
}
