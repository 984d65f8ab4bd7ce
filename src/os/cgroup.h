// The memory limit of the cgroup this process runs in, version 1 or 2, and how much of it is used.
// Files that are absent or unreadable mean no limit. Sits in os; reads without allocating.
#pragma once

#include <cstddef>

namespace strata {

struct CgroupMemory {
  size_t limit = 0;  // bytes; 0: none known
  size_t usage = 0;  // without file cache that the kernel would drop before it kills
};

class CgroupWatch {
 public:
  // Finds the files of this process's cgroup, below `mount` (/sys/fs/cgroup), from `self`
  // (/proc/self/cgroup). Called again after a fork or a move to another cgroup.
  void Find(const char* mount, const char* self);
  CgroupMemory Read() const;

 private:
  static constexpr size_t kPath = 512;

  bool Use(const char* mount, const char* controller, const char* path, const char* limit,
           const char* usage);

  char limit_[kPath] = {};
  char usage_[kPath] = {};
  char stat_[kPath] = {};
  const char* inactive_file_ = "";  // the line of memory.stat that counts such cache
};

}  // namespace strata
