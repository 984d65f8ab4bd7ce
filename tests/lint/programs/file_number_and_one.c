// One more than a descriptor is no handle of it: select is given how many there are.
#include <fcntl.h>
#include <stdint.h>
#include <sys/select.h>
#include <unistd.h>

static void* slot(int n) { return (void*)(intptr_t)(n + 1); }

static int wait_for(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return -1;
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  if (select(fd + 1, &set, 0, 0, 0) < 0) return -1;
  close(fd);
  return 0;
}

int main(int argc, char** argv) { return slot(argc) == 0 || wait_for(argv[0]); }
