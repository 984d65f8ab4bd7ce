// DAMON, the kernel's own finder of cold memory (Park et al., HPDC 2022), told to page out what
// this process has not used for ten seconds. Where the kernel can watch one process's addresses it
// watches these; else all memory, with a filter for the pages of the process's memory cgroup. Sits
// in os; over the files of Documentation/admin-guide/mm/damon/usage.rst.
#pragma once

#include <cstdint>

namespace strata {

class Damon {
 public:
  // `root`: /sys/kernel/mm/damon/admin.
  constexpr explicit Damon(const char* root) : root_(root) {}

  // `cgroup`: as /proc/self/cgroup names the one whose memory may go; "/" or empty: none. Null: it
  // watches, also where it did so already. Else a word why not: another's configuration is never
  // changed while it is on.
  const char* Start(uint64_t pid, const char* cgroup) const;

  // Only what Start has made: the rest is somebody else's.
  void Stop(uint64_t pid, const char* cgroup) const;

 private:
  enum class Watches : uint8_t { kAddresses, kCgroup };

  bool On() const;
  bool IsOurs(uint64_t pid, const char* cgroup) const;
  bool Avails(const char* operations) const;
  bool Set(const char* file, const char* text) const;
  bool Set(const char* file, uint64_t number) const;
  bool Is(const char* file, const char* text) const;
  bool SetUp(Watches what, uint64_t pid, const char* cgroup) const;
  bool FilterCgroup(const char* directory, const char* cgroup) const;

  const char* const root_;
};

}  // namespace strata
