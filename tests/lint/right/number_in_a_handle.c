// Right: a descriptor's number goes on as a handle that is not null.
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

typedef struct handle* Handle;
#define HANDLE(fd) ((Handle)(intptr_t)((fd) + 1))
#define NUMBER(h) ((int)(intptr_t)(h) - 1)

static Handle begin(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd == -1) return 0;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return HANDLE(fd);
}

static int pair(Handle* in, Handle* out) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  *in = HANDLE(ends[0]);
  *out = HANDLE(ends[1]);
  return 0;
}

int main(int argc, char** argv) {
  Handle h = begin(argv[0]), in, out;
  if (h) close(NUMBER(h));
  if (pair(&in, &out) == 0) {
    close(NUMBER(in));
    close(NUMBER(out));
  }
  return 0;
}
