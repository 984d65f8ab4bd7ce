// A half-made record is freed, with the descriptor in it.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct reader {
  int fd;
  char* buffer;
};

struct reader* f(const char* path) {
  struct reader* r = malloc(sizeof *r);
  if (!r) return NULL;
  r->fd = open(path, O_RDONLY);
  if (r->fd < 0) {
    free(r);
    return NULL;
  }
  r->buffer = malloc(4096);
  if (!r->buffer) {
    free(r);
    return NULL;
  }
  return r;
}
