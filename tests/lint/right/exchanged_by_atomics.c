// Right: who exchanges a descriptor by an atomic operation closes what comes out, and whoever takes
// it out of there closes what went in.
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int shared = -1;

struct holder {
  _Atomic int fd;
};

static void put(const char* path) {
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return;
  const int old = atomic_exchange(&shared, fd);
  if (old >= 0) close(old);
}

static void put_if_none(const char* path) {
  const int fd = open(path, O_RDONLY);
  int none = -1;
  if (fd < 0) return;
  if (!atomic_compare_exchange_strong(&shared, &none, fd)) close(fd);
}

static void take(const char* path) {
  struct holder h;
  atomic_init(&h.fd, open(path, O_RDONLY));
  const int fd = atomic_exchange(&h.fd, -1);
  if (fd >= 0) close(fd);
}

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  put(argv[1]);
  put_if_none(argv[1]);
  take(argv[1]);
  return 0;
}
