// An own descriptor table for one thread. See own_descriptors.h.
#include "os/own_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "strata/raw_io.h"

namespace strata {
namespace {

struct LinuxDirent {
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[];
};

int NumberOf(const char* name) {
  int n = 0;
  for (; *name >= '0' && *name <= '9'; ++name) n = n * 10 + (*name - '0');
  return *name == '\0' ? n : -1;
}

// Closes what /proc lists; false if it can't be read. The directory's own descriptor goes last.
bool CloseListed() {
  const int dir = raw::Open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return false;
  alignas(LinuxDirent) char buffer[2048];
  // Closing moves nothing in this directory: entries are found by number.
  for (long n; (n = raw::Call(SYS_getdents64, dir, raw::Word(buffer), sizeof(buffer))) > 0;) {
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const LinuxDirent*>(buffer + at);
      const int fd = entry->name[0] == '.' ? -1 : NumberOf(entry->name);
      if (fd >= 0 && fd != dir) raw::Close(fd);
      at += entry->length;
    }
  }
  raw::Close(dir);
  return true;
}

// Before Linux 5.9, or where a filter does not know the call.
bool UnshareAndClose() {
  if (raw::Call(SYS_unshare, CLONE_FILES) != 0) return false;
  if (CloseListed()) return true;
  rlimit limit{};
  constexpr rlim_t kMost = 65536;  // without /proc: what lies above stays open
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > kMost) limit.rlim_cur = kMost;
  for (rlim_t fd = 0; fd < limit.rlim_cur; ++fd) raw::Close(static_cast<int>(fd));
  return true;
}

}  // namespace

bool TakeOwnDescriptors() {
  if (raw::Call(SYS_close_range, 0, UINT32_MAX, CLOSE_RANGE_UNSHARE) != 0 && !UnshareAndClose())
    return false;
  for (int i = 0; i <= STDERR_FILENO; ++i) {
    if (epoll_create1(EPOLL_CLOEXEC) < 0) break;
  }
  return true;
}

}  // namespace strata
