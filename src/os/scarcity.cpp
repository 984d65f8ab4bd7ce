// Reading what is left. See scarcity.h.
#include "os/scarcity.h"

#include <errno.h>
#include <string.h>

#include <algorithm>

#include "os/kernel_text.h"

namespace strata {

void ScarcityWatch::Find() {
  cgroup_.Find(places_.cgroups, places_.self);
  cgroup_.FindPids(places_.cgroups, places_.self);
}

// Where there is no such file, or an old kernel's that does not say what is available, no limit is
// known.
bool ScarcityWatch::ReadMachine(MemorySupply& m) const {
  constexpr size_t kKib = 1024;
  char text[4096];
  const int why =
      WhyNoKernelText(KernelPath().Add(places_.meminfo).Add("/meminfo").text(), text, sizeof(text));
  m = {};
  if (why != 0) return why == ENOENT;
  constexpr char kAvailable[] = "\nMemAvailable:";
  if (strstr(text, kAvailable) == nullptr) return true;
  // The first line has no line start before it.
  m.limit = (FieldInText(text, "MemTotal:") + FieldInText(text, "\nSwapTotal:")) * kKib;
  m.used =
      m.limit -
      std::min((FieldInText(text, kAvailable) + FieldInText(text, "\nSwapFree:")) * kKib, m.limit);
  return true;
}

}  // namespace strata
