// See move_conditions.h.
#include "os/move_conditions.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/errno_keeper.h"
#include "os/confinement.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

template <class Resource>  // an enum in glibc, a number in musl
bool IsLimited(Resource resource) {
  rlimit limit;
  return getrlimit(resource, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

// vm.overcommit_memory = 2; a setting that can't be read counts as that.
bool IsCommitStrict() {
  const int fd = raw::Open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  char mode = '2';
  const bool read = raw::Read(fd, &mode, 1) == 1;
  raw::Close(fd);
  return !read || mode == '2';
}

bool IsAnyLocked() {
  const ProcessStatus status = ReadProcessStatus("/proc/self/status");
  return !status.readable || status.locked_kib != 0;
}

}  // namespace

bool IsAddressSpaceFree() {
  const ErrnoKeeper keep;
  return !IsLimited(RLIMIT_AS) && !IsCommitStrict() && !IsAnyLocked();
}

bool MayMoveMemory() {
  const ErrnoKeeper keep;
  return !IsLimited(RLIMIT_DATA) && IsAddressSpaceFree();
}

}  // namespace strata
