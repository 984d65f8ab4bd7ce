// The highest address, by where the first stack lies, and the size of the window. See
// address_limit.h.
#include "os/address_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <cstddef>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "base/units.h"
#include "strata/raw_io.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace strata {
namespace {

bool CanMapAt(uintptr_t at) {
  void* const wanted = reinterpret_cast<void*>(at);
  void* const got = mmap(wanted, kHugePageSize, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return errno == EEXIST;
  munmap(got, kHugePageSize);
  return got == wanted;
}

// By the first line of /proc/meminfo, "MemTotal:   24683900 kB", which a filter lets the loader's
// calls read; 0 if it can't be known.
size_t PhysicalMemory() {
  const int fd = raw::Open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[64];
  const ssize_t n = raw::Read(fd, text, sizeof(text) - 1);
  raw::Close(fd);
  size_t kib = 0;
  for (ssize_t i = 0; i < n && text[i] != 'k'; ++i) {
    if (text[i] >= '0' && text[i] <= '9') kib = kib * 10 + static_cast<size_t>(text[i] - '0');
  }
  return kib << 10;
}

}  // namespace

// An emulator's guest may have its stack anywhere, so a low one is no proof; where it lies high,
// nothing is asked of the kernel.
uintptr_t AddressLimit() {
  const uintptr_t on_stack = getauxval(AT_RANDOM);
  if (on_stack >= kUsualLimit / 2 || on_stack == 0) return kUsualLimit;
  const ErrnoKeeper keep;
  if (CanMapAt(HighestOf(kUsualLimit) - kHugePageSize)) return kUsualLimit;
  uintptr_t limit = kUsualLimit;
  while (limit / 2 > on_stack) limit /= 2;
  return limit;
}

STRATA_ONCE HugePages DefaultWindow() {
  size_t bytes = size_t{1} << 40;
  if (const size_t memory = PhysicalMemory(); memory != 0) {
    if (memory * 4 > bytes) bytes = RoundUp(memory * 4, size_t{1} << 40);
  }
  constexpr size_t kMost = size_t{16} << 40;
  return HugePages((bytes < kMost ? bytes : kMost) >> kHugePageShift);
}

}  // namespace strata
