// DAMON, the kernel's own finder of cold memory (Park et al., HPDC 2022), told to page out what of
// a range of this process's addresses was not used for ten seconds. Where the kernel can watch no
// range (before Linux 6.0) it watches the whole process, and where it can watch no addresses all
// memory, with a filter for the pages of the process's memory cgroup. Sits in os; over the files of
// Documentation/admin-guide/mm/damon/usage.rst.
#pragma once

#include <cstdint>

namespace strata {

struct AddressRange {
  uintptr_t begin = 0, end = 0;

  bool holds(const AddressRange& r) const { return begin <= r.begin && r.end <= end; }
};

class Damon {
 public:
  // `root`: /sys/kernel/mm/damon/admin.
  constexpr explicit Damon(const char* root) : root_(root) {}

  // `cgroup`: as /proc/self/cgroup names the one whose memory may go; "/" or empty: none. Null: it
  // watches; where it did so already, from now on this range. Else a word why not: another's
  // configuration is never changed while it is on.
  const char* Start(uint64_t pid, AddressRange range, const char* cgroup) const;

  // Only what Start has made: the rest is somebody else's.
  void Stop(uint64_t pid, const char* cgroup) const;

 private:
  enum class Watches : uint8_t { kRange, kProcess, kCgroup };
  struct Target {
    uint64_t pid;
    AddressRange range;
    const char* cgroup;
  };

  bool On() const;
  bool IsOurs(uint64_t pid, const char* cgroup) const;
  bool Avails(const char* operations) const;
  bool Set(const char* file, const char* text) const;
  bool Set(const char* file, uint64_t number) const;
  bool Is(const char* file, const char* text) const;
  bool SetRange(AddressRange range) const;
  bool Aim(Watches what, const Target& target) const;
  bool SetUp(Watches what, const Target& target) const;
  bool FilterCgroup(const char* directory, const char* cgroup) const;

  const char* const root_;
};

}  // namespace strata
