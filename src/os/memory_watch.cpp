// The soft limit's arithmetic. See memory_watch.h.
#include "os/memory_watch.h"

#include <algorithm>

#include "os/confinement.h"

namespace strata {
namespace {

constexpr size_t kDefaultPercent = 90;

// limit is below 2^60, and percent at most 100.
size_t PercentOf(size_t limit, size_t percent) {
  return limit / 100 * percent + limit % 100 * percent / 100;
}

int64_t Room(size_t limit, size_t usage) {
  return static_cast<int64_t>(limit) - static_cast<int64_t>(usage);
}

}  // namespace

void MemoryWatch::SetRoot(const char* mount, const char* self, const char* statm) {
  mount_ = mount;
  self_ = self;
  statm_ = statm;
}

void MemoryWatch::Set(SoftLimitSetting soft) {
  LockHolder hold(lock_);
  soft_ = soft;
  unlimited_ = false;
}

SoftLimitSetting MemoryWatch::soft() const {
  LockHolder hold(lock_);
  return soft_;
}

MemoryState MemoryWatch::state() const {
  LockHolder hold(lock_);
  return state_;
}

void MemoryWatch::FindIfStale() {
  if (!stale_.exchange(false, std::memory_order_relaxed)) return;
  cgroup_.Find(mount_, self_);
  state_.cpu_quota = cgroup_.ReadCpuQuota();
  unlimited_ = false;
}

// Notes what it sees.
int64_t MemoryWatch::RoomInCgroup() {
  const CgroupMemory m = cgroup_.Read();
  state_.cgroup_limit = m.limit;
  state_.cgroup_usage = m.usage;
  if (m.limit == 0) return kNoLimit;
  const size_t percent =
      soft_.kind == SoftLimitSetting::Kind::kPercent ? soft_.value : kDefaultPercent;
  state_.soft_limit = PercentOf(m.limit, percent);
  return Room(state_.soft_limit, m.usage);
}

int64_t MemoryWatch::Headroom() {
  if (!MayOpenFiles()) return kNoLimit;
  LockHolder hold(lock_);
  if (soft_.kind == SoftLimitSetting::Kind::kOff)
    return kNoLimit;  // who wants no limit has no file opened
  FindIfStale();
  if (unlimited_) return kNoLimit;
  ++state_.looks;
  state_.soft_limit = 0;
  int64_t room = RoomInCgroup();
  if (soft_.kind == SoftLimitSetting::Kind::kBytes) {
    const int64_t own = Room(soft_.value, OwnResidentBytes(statm_));
    if (own < room) {
      room = own;
      state_.soft_limit = soft_.value;
    }
  }
  unlimited_ = room == kNoLimit;
  return room;
}

}  // namespace strata
