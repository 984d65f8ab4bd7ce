// The highest address, by where the first stack lies. See address_limit.h.
#include "os/address_limit.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/errno_keeper.h"
#include "base/units.h"

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

}  // namespace strata
