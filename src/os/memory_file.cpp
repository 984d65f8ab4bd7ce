// Files in memory. See memory_file.h.
#include "os/memory_file.h"

#include <errno.h>
#include <linux/memfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace strata {

int OpenMemoryFile(const char* name) {
  // Newer kernels want to be told that nothing will be executed from it, older ones don't know how.
  constexpr unsigned kNoExecSeal = 8U;
  long fd = syscall(SYS_memfd_create, name, MFD_CLOEXEC | kNoExecSeal);
  if (fd < 0 && errno == EINVAL) fd = syscall(SYS_memfd_create, name, MFD_CLOEXEC);
  return static_cast<int>(fd);
}

size_t MemoryFileLength(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 ? static_cast<size_t>(file.st_size) : 0;
}

}  // namespace strata
