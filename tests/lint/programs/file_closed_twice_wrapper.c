// Wrong on purpose: closed twice wrapper.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct log {
  FILE* f;
  int on;
};
static void log_close(struct log* l) {
  if (l->on) fclose(l->f);
}
static int log_rotate(struct log* l, const char* p) {
  fclose(l->f);
  if (rename(p, "x") < 0) {
    log_close(l);
    return -1;
  }
  l->f = fopen(p, "a");
  return l->f ? 0 : -1;
}
int main(int a, char** v) {
  struct log l;
  l.f = fopen(v[1], "a");
  if (!l.f) return 1;
  l.on = 1;
  if (log_rotate(&l, v[1]) < 0) return 1;
  log_close(&l);
  return 0;
}
