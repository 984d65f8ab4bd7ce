// What the cgroup of this process allows it, version 1 or 2: memory, and how much of it is used;
// CPU time; processes and threads. A limit of any ancestor binds as well as one's own, so every
// level is looked at, and the one that is nearest to its end counts. Files that are absent or
// unreadable mean no limit. Sits in os; reads without allocating, by system calls that are no
// cancellation points.
#pragma once

#include <string.h>

#include <cstddef>
#include <cstdint>

namespace strata {

struct CgroupMemory {
  size_t limit = 0;      // bytes; 0: none known
  size_t usage = 0;      // without file cache that the kernel would drop before it kills
  size_t hot_cache = 0;  // of that, file cache in use, which it drops last
};

struct CgroupPids {
  size_t limit = 0;  // processes and threads; 0: none known
  size_t used = 0;
};

enum class CgroupVersion : uint8_t { kOne, kTwo };

class CgroupWatch {
 public:
  // Finds the directories of this process's cgroups, below `mount` (/sys/fs/cgroup), from `self`
  // (/proc/self/cgroup). Called again after a fork or a move to another cgroup.
  void Find(const char* mount, const char* self);

  // The same for ForEachPids, which few ask for.
  void FindPids(const char* mount, const char* self);

  // Of the level with the least room; memory.high counts as a limit, since the kernel stalls the
  // process there.
  CgroupMemory Read() const;

  // Calls f(CgroupMemory), and f(CgroupPids), for each level that has a limit, the own first.
  // False: some file is there and could not be read, as where no descriptor is left.
  template <class F>
  bool ForEachMemory(F f) const {
    bool all = true;
    ForEachLevel(memory_, [&](const char* path) {
      CgroupMemory m;
      const bool known = MemoryAt(path, memory_.version, m);
      if (known && m.limit != 0) f(m);
      all &= known;
    });
    return all;
  }
  template <class F>
  void ForEachPids(F f) const {
    ForEachLevel(pids_, [&](const char* path) {
      if (const CgroupPids p = PidsAt(path); p.limit != 0) f(p);
    });
  }

  // The share of the last 10 s in which some task of the cgroup waited for memory, 0 to 1; version
  // 2 only.
  double ReadPressure() const;

  // Thousandths of a CPU that the process may use over time; 0: as many as there are.
  uint32_t ReadCpuQuota() const;

  // Asks the kernel to take so many bytes from the level that this process is in. Under version 1,
  // which has no other way, its limit goes down by as much for a moment. False: refused.
  bool Reclaim(size_t bytes) const;

  // The directory whose memory files are read, without the ancestors'; empty: none was found.
  const char* memory_directory() const { return memory_.path; }
  // The same, as the kernel names it: "/a/b". Empty: the root, or none was found.
  const char* memory_group() const { return memory_.path + memory_.root; }

 private:
  static constexpr size_t kPath = 512;
  struct Directory {
    char path[kPath] = {};
    size_t root = 0;  // length of the part that is the mount: no ancestor lies above it
    CgroupVersion version = CgroupVersion::kTwo;
  };

  // Takes the deepest of the directories from `path` up to the mount that has `file`.
  static bool Use(const char* mount, const char* controller, const char* path, const char* file,
                  CgroupVersion version, Directory& out);
  // Calls f(path) for the directory and each of its ancestors up to the mount.
  template <class F>
  static void ForEachLevel(const Directory& d, F f) {
    if (d.path[0] == '\0') return;
    char path[kPath];
    memcpy(path, d.path, sizeof(path));
    for (size_t length = strlen(path);;) {
      f(static_cast<const char*>(path));
      if (length <= d.root) return;
      do --length;
      while (length > d.root && path[length] != '/');
      path[length] = '\0';
    }
  }
  // False: there is something that could not be read.
  static bool MemoryAt(const char* directory, CgroupVersion version, CgroupMemory& m);
  static CgroupPids PidsAt(const char* directory);
  bool FindVersionOne(const char* mount, char* controllers, const char* path);

  Directory memory_;
  Directory cpu_;
  Directory pids_;
};

// As ReadPressure, of a file in the form of /proc/pressure/memory; 0 where there is none.
double ReadMemoryPressure(const char* file);

// Bytes of memory that this process alone holds (resident and not shared), by `statm`
// (/proc/self/statm); 0 if that can't be read.
size_t OwnResidentBytes(const char* statm);

}  // namespace strata
