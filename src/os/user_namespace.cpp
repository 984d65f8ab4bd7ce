// The user namespace's map. See user_namespace.h.
#include "os/user_namespace.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "strata/raw_io.h"

namespace strata {

bool EveryUserHasAName() {
  const int fd = raw::Open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char map[256];
  const ssize_t n = raw::Read(fd, map, sizeof(map) - 1);
  raw::Close(fd);
  if (n <= 0) return false;
  map[n] = '\0';
  // One line: first user inside, first user outside, how many; 4294967295 is all of them.
  constexpr const char* kIdentity[] = {"0", "0", "4294967295"};
  const char* at = map;
  for (const char* wanted : kIdentity) {
    at += strspn(at, " ");
    const size_t length = strcspn(at, " \n");
    if (length != strlen(wanted) || strncmp(at, wanted, length) != 0) return false;
    at += length;
  }
  return strcmp(at, "\n") == 0;
}

}  // namespace strata
