// Whether the dynamic linker has loaded or unloaded a file since it was last asked: its own counts,
// which tell also of a file that took the place of another. Sits in profile/unwind; for the
// background thread, not for a walk: the dynamic linker takes a lock to answer.
//
// glibc does not reset that lock in a forked child, which would hang for ever in dlopen or in an
// exception if the thread that holds it did not come along. So a fork keeps this thread from asking
// and waits for it, before it takes any lock; not for long, as a callback of the program's may be
// what this thread waits for.
#pragma once

#include <atomic>
#include <cstdint>

namespace strata {

class LoadedFiles {
 public:
  // True the first time. One thread at a time; false while the process forks.
  bool Changed();

  void BeforeFork();
  void AfterFork() { state_.fetch_sub(kFork, std::memory_order_release); }
  void AfterForkInChild() { state_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kAsking = 1, kFork = 2;  // kFork: added for each fork under way

  std::atomic<uint32_t> state_{0};
  uint64_t loaded_ = 0;
  uint64_t unloaded_ = 0;
};

}  // namespace strata
