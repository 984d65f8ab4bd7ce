// How much memory and how many processes are left to this process and its neighbours: what its
// cgroup, each of that one's ancestors, and the machine have. Which of them counts is for the price
// of growth to say (price/price_law.h); read only where an operator has asked for it. Sits in os;
// allocates nothing.
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

  // Calls f(MemorySupply) for each limit that binds: of the cgroup, its ancestors and the machine,
  // which may hold less than all the limits in it; and f(CgroupPids) for each on processes. What
  // counts as pressure is how long this cgroup waits, not what some other does to itself; without a
  // limit, the machine's. False: a file is there and could not be read.
  template <class F>
  bool ForEachMemory(F f) const {
    const double pressure = cgroup_.ReadPressure();
    bool limited = false;
    const bool all = cgroup_.ForEachMemory([&](const CgroupMemory& c) {
      limited = true;
      // File cache in use is dropped only under need, which a price keeps off: half of it is as
      // good as free, as nearly all is in MemAvailable.
      f(MemorySupply{c.limit, c.usage - c.hot_cache / 2, pressure});
    });
    MemorySupply machine;
    const bool known = ReadMachine(machine);
    machine.pressure = limited || !all ? pressure : ReadMemoryPressure(places_.pressure);
    if (machine.limit != 0) f(machine);
    return all && known;
  }
  template <class F>
  void ForEachPids(F f) const {
    cgroup_.ForEachPids(f);
  }

 private:
  // The machine's memory and swap, as far as the kernel can give more of it without killing.
  // False: it could not be read.
  bool ReadMachine(MemorySupply& m) const;

  Places places_;
  CgroupWatch cgroup_;
};

}  // namespace strata
