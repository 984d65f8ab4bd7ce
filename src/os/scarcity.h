// How much memory and how many processes are left to this process and its neighbours: what its
// cgroup allows or, where no cgroup sets a limit, what the machine has. For the price of growth
// (price/price_law.h); read only where an operator has asked for it. Sits in os; allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/cgroup.h"

namespace strata {

struct MemorySupply {
  size_t limit = 0;  // bytes; 0: not known
  size_t used = 0;
  double pressure = 0;  // share of the last 10 s in which some task waited for memory
};

class ScarcityWatch {
 public:
  // Where the files are; for tests.
  struct Places {
    const char* cgroups = "/sys/fs/cgroup";
    const char* self = "/proc/self/cgroup";
    const char* meminfo = "/proc";  // the directory
    const char* pressure = "/proc/pressure/memory";
  };
  ScarcityWatch() = default;
  explicit ScarcityWatch(const Places& places) : places_(places) {}

  // Finds the cgroup: at first, after a fork, and now and then, as a process may be moved.
  void Find();

  MemorySupply ReadMemory() const;
  CgroupPids ReadPids() const { return cgroup_.ReadPids(); }

 private:
  // The machine's memory and swap, as far as the kernel can give more of it without killing.
  MemorySupply ReadMachine() const;

  Places places_;
  CgroupWatch cgroup_;
};

}  // namespace strata
