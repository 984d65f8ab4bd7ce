// Physical memory of this process as the kernel charges it. RSS misses pages that were unmapped
// from a hugepage which the kernel has not split yet; a memory cgroup of our own counts them. Falls
// back to the change of MemAvailable where no cgroup can be made (then other programs disturb it).
#pragma once

#include <sys/stat.h>

#include "common.h"

namespace bench {

class PhysicalMemory {
 public:
  // Moves this process into a fresh memory cgroup, v1 or v2.
  PhysicalMemory() {
    static constexpr const char* kParents[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    static constexpr const char* kFiles[] = {"memory.usage_in_bytes", "memory.current"};
    for (int i = 0; i < 2 && source_[0] == '\0'; ++i) Enter(kParents[i], kFiles[i]);
    base_kib_ = source_[0] != '\0' ? ReadCgroupKib() : Available();
  }

  // Goes back to where it came from and removes the cgroup.
  ~PhysicalMemory() {
    if (source_[0] == '\0') return;
    WritePid(home_);
    rmdir(directory_);
  }
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  const char* Kind() const { return source_[0] != '\0' ? "cgroup" : "memavailable"; }

  // KiB used since the constructor ran.
  uint64_t UsedKib() const {
    if (source_[0] != '\0') {
      const uint64_t now = ReadCgroupKib();
      return now > base_kib_ ? now - base_kib_ : 0;
    }
    const uint64_t now = Available();
    return now < base_kib_ ? base_kib_ - now : 0;
  }

 private:
  static uint64_t Available() { return FieldOf("/proc/meminfo", "MemAvailable:"); }

  static bool WritePid(const char* path) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    char text[16];
    const int n = snprintf(text, sizeof text, "%d", static_cast<int>(getpid()));
    const bool done = write(fd, text, static_cast<size_t>(n)) == n;
    close(fd);
    return done;
  }

  void Enter(const char* parent, const char* file) {
    char directory[128];
    char path[192];
    snprintf(directory, sizeof directory, "%s/strata-bench-%d", parent, static_cast<int>(getpid()));
    if (mkdir(directory, 0755) != 0) return;
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    char usage[192];
    snprintf(usage, sizeof usage, "%s/%s", directory, file);
    // The usage file is missing when the controller is not on for this level.
    if (access(usage, R_OK) == 0 && WritePid(path)) {
      snprintf(source_, sizeof source_, "%s", usage);
      snprintf(directory_, sizeof directory_, "%s", directory);
      snprintf(home_, sizeof home_, "%s/cgroup.procs", parent);
    } else {
      rmdir(directory);
    }
  }

  uint64_t ReadCgroupKib() const {
    char text[64];
    return strtoull(ReadFile(source_, text, sizeof text), nullptr, 10) / 1024;
  }

  char source_[192] = {};
  char directory_[128] = {};
  char home_[192] = {};
  uint64_t base_kib_ = 0;
};

}  // namespace bench
