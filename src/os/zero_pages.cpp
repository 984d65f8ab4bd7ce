// Which pages of the heap hold only zeros, and what the kernel does with such. Part of
// system_kernel.h.
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/errno_keeper.h"
#include "os/confinement.h"
#include "os/system_kernel.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

using NativePage = uint64_t[kNativePageSize / sizeof(uint64_t)];

bool IsZero(const NativePage& page) {
  uint64_t all = 0;
  for (const uint64_t word : page) all |= word;
  return all == 0;
}

}  // namespace

// Copied by the kernel: the program writes there meanwhile, or keeps parts from being read.
size_t SystemKernel::NonZero(HugePageId page, const unsigned char* resident, size_t most) {
  constexpr size_t kAtOnce = 4;
  if (!MayCallAnything()) return SIZE_MAX;
  const ErrnoKeeper keep;
  NativePage copy[kAtOnce];
  iovec theirs[kAtOnce];
  size_t n = 0;
  for (size_t i = 0; i < kNativePerHugePage && n <= most;) {
    size_t pages = 0;
    for (; i < kNativePerHugePage && pages < kAtOnce; ++i) {
      const uintptr_t at = base_ + OffsetOf(page) + i * kNativePageSize;
      if ((resident[i] & 1) != 0) theirs[pages++] = {reinterpret_cast<void*>(at), kNativePageSize};
    }
    if (pages == 0) break;
    const iovec ours{copy, pages * kNativePageSize};
    const ssize_t got = process_vm_readv(getpid(), &ours, 1, theirs, pages, 0);
    if (got != static_cast<ssize_t>(ours.iov_len)) return SIZE_MAX;
    for (size_t k = 0; k < pages; ++k) n += !IsZero(copy[k]);
  }
  return n;
}

// The kernels that do have this setting too, whatever it says.
bool SystemKernel::FreesZeroPages() {
  if (!MayOpenFiles()) return false;
  const ErrnoKeeper keep;
  const int fd =
      raw::Open("/sys/kernel/mm/transparent_hugepage/shrink_underused", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  raw::Close(fd);
  return true;
}

}  // namespace strata
