// Reads /sys/kernel/mm/transparent_hugepage/enabled. See thp_mode.h.
#include "os/thp_mode.h"

#include <fcntl.h>
#include <string.h>
#include <sys/types.h>

#include "base/errno_keeper.h"
#include "os/confinement.h"
#include "strata/raw_io.h"

namespace strata {

ThpMode ReadThpMode() {
  if (!MayOpenFiles()) return ThpMode::kUnknown;
  const ErrnoKeeper keep;
  const int fd = raw::Open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ThpMode::kUnknown;
  char text[64] = {};
  const ssize_t n = raw::Read(fd, text, sizeof(text) - 1);
  raw::Close(fd);
  if (n <= 0) return ThpMode::kUnknown;
  if (strstr(text, "[always]") != nullptr) return ThpMode::kAlways;
  if (strstr(text, "[madvise]") != nullptr) return ThpMode::kMadvise;
  return strstr(text, "[never]") != nullptr ? ThpMode::kNever : ThpMode::kUnknown;
}

const char* NameOf(ThpMode mode) {
  switch (mode) {
    case ThpMode::kAlways:
      return "always";
    case ThpMode::kMadvise:
      return "madvise";
    case ThpMode::kNever:
      return "never";
    case ThpMode::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace strata
