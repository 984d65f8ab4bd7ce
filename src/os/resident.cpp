// By mincore, or where a filter may refuse it by /proc (smaps.cpp). See resident.h.
#include "os/resident.h"

#include <sys/mman.h>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/confinement.h"
#include "os/page_bytes.h"

namespace strata {

bool ResidentPages(uintptr_t start, size_t native_pages, unsigned char* one_byte_a_page) {
  const ErrnoKeeper keep;
  if (!HasNoFilter()) return MayOpenFiles() && PagesInPagemap(start, native_pages, one_byte_a_page);
  const size_t page = KernelPageBytes();
  if (page == kNativePageSize) {
    return mincore(reinterpret_cast<void*>(start), native_pages * kNativePageSize,
                   one_byte_a_page) == 0;
  }
  // The kernel's answer is for larger pages: one for each, told of all native pages in it.
  unsigned char resident = 0;
  uintptr_t asked = 0;
  for (size_t i = 0; i < native_pages; ++i) {
    const uintptr_t at = RoundDown(start + i * kNativePageSize, page);
    if (at != asked && mincore(reinterpret_cast<void*>(at), page, &resident) != 0) return false;
    asked = at;
    one_byte_a_page[i] = resident;
  }
  return true;
}

size_t ResidentBytes(uintptr_t start, size_t bytes) {
  constexpr size_t kAtOnce = 4096;
  unsigned char pages[kAtOnce];
  size_t resident = 0;
  for (size_t left = bytes / kNativePageSize; left != 0;) {
    const size_t n = left < kAtOnce ? left : kAtOnce;
    if (ResidentPages(start, n, pages)) {
      for (size_t i = 0; i < n; ++i) resident += pages[i] & 1;
    }
    start += n * kNativePageSize;
    left -= n;
  }
  return resident * kNativePageSize;
}

}  // namespace strata
