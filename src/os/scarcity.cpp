// Reading what is left. See scarcity.h.
#include "os/scarcity.h"

#include <algorithm>

#include "os/kernel_text.h"

namespace strata {

void ScarcityWatch::Find() {
  cgroup_.Find(places_.cgroups, places_.self);
  cgroup_.FindPids(places_.cgroups, places_.self);
}

MemorySupply ScarcityWatch::ReadMachine() const {
  constexpr size_t kKib = 1024;
  const auto field = [this](const char* name) {
    return ReadKernelField(places_.meminfo, "/meminfo", name) * kKib;
  };
  MemorySupply m;
  // The first line has no line start before it.
  m.limit = field("MemTotal:") + field("\nSwapTotal:");
  m.used = m.limit - std::min(field("\nMemAvailable:") + field("\nSwapFree:"), m.limit);
  m.pressure = ReadMemoryPressure(places_.pressure);
  return m;
}

}  // namespace strata
