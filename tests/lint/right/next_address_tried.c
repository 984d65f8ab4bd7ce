// Right: where the list's end was reached the program is over, so what goes on is connected. The
// list's place is known to getaddrinfo: what it holds is read anew each time.
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

static int reach(const char* host) {
  struct addrinfo *list, *all;
  int fd = -1;
  if (getaddrinfo(host, "http", 0, &list) != 0) exit(1);
  for (all = list; list; list = list->ai_next) {
    if ((fd = socket(list->ai_family, list->ai_socktype, list->ai_protocol)) < 0) continue;
    if (connect(fd, list->ai_addr, list->ai_addrlen) == 0) break;
    close(fd);
  }
  if (!list) exit(1);
  freeaddrinfo(all);
  return fd;
}

int main(int argc, char** argv) {
  int fd = reach(argv[argc - 1]);
  if (write(fd, "hello", 5) != 5) argc = 0;
  close(fd);
  return argc;
}
