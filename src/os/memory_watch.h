// How much memory the process may still take before its soft limit: a share of what its cgroup
// allows, or a number of bytes of its own. The page heap asks when its growth may have used up what
// it was told last; the background asks every round. Sits in os.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "os/cgroup.h"

namespace strata {

struct SoftLimitSetting {
  enum class Kind : uint8_t {
    kOff,
    kPercent,  // of the cgroup's limit
    kBytes,    // of this process's own memory; 90 % of the cgroup's limit holds as well
  };
  Kind kind = Kind::kPercent;
  size_t value = 90;
};

// What was seen at the last look. Bytes; 0: none.
struct MemoryState {
  size_t cgroup_limit = 0;
  size_t cgroup_usage = 0;
  size_t soft_limit = 0;
  uint32_t cpu_quota = 0;  // thousandths of a CPU
  uint64_t looks = 0;      // so far
};

class MemoryWatch {
 public:
  static constexpr int64_t kNoLimit = INT64_MAX;

  // Where the files are; for tests.
  void SetRoot(const char* mount, const char* self, const char* statm);

  void Set(SoftLimitSetting soft) STRATA_EXCLUDES(lock_);
  SoftLimitSetting soft() const STRATA_EXCLUDES(lock_);

  // Bytes; negative when over the limit. Reads the files anew, which takes some tens of
  // microseconds. A process without a limit is not looked at again before Rediscover.
  int64_t Headroom() STRATA_EXCLUDES(lock_);

  // The next look finds the cgroup and the CPU quota again: the process may have been moved, or a
  // limit set.
  void Rediscover() { stale_.store(true, std::memory_order_relaxed); }

  MemoryState state() const STRATA_EXCLUDES(lock_);

  // Taken before a fork.
  Lock& lock() STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  void FindIfStale() STRATA_REQUIRES(lock_);
  int64_t RoomInCgroup() STRATA_REQUIRES(lock_);

  mutable Lock lock_{LockRank::kMetadata};
  std::atomic<bool> stale_{true};
  const char* mount_ = "/sys/fs/cgroup";
  const char* self_ = "/proc/self/cgroup";
  const char* statm_ = "/proc/self/statm";
  CgroupWatch cgroup_ STRATA_GUARDED_BY(lock_);
  SoftLimitSetting soft_ STRATA_GUARDED_BY(lock_);
  MemoryState state_ STRATA_GUARDED_BY(lock_);
  bool unlimited_ STRATA_GUARDED_BY(lock_) = false;  // at the last look
};

}  // namespace strata
