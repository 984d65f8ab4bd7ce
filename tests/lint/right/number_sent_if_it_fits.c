// Right: the descriptor's number goes into a request, which the callee keeps if there is room.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct request {
  unsigned length;
  char bytes[64];
};

static int add(struct request* r, const void* data, unsigned length) {
  if (r->length + length > sizeof r->bytes) {
    fprintf(stderr, "no room\n");
    return -1;
  }
  memcpy(r->bytes + r->length, data, length);
  r->length += length;
  return 0;
}

int prepare(struct request* r, const char* name) {
  int d = open(name, O_RDONLY);
  if (d < 0) return -1;
  add(r, &d, sizeof d);
  return 0;
}
