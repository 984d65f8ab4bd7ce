// How often a block is guarded by default: by the CPU time of the process, so that guards take the
// same small part of it whether it is busy or mostly waits, and never more often than every some
// milliseconds, for each is a call that stops the address space of all threads. Sits in heaps,
// beside guard_pool.h.
//
// The CPU time of a process takes a system call in which the kernel adds up all threads: it is read
// where what was seen last is used up, and once three blocks' worth more is to be expected. A
// process that is held up is expected to use little, so that is no long time.
//
// Where a filter may forbid that call, all of the time since the first block counts as used.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

// Clocks: uint64_t CoarseNowNs(), monotonic; bool MayReadProcessCpu(); uint64_t ProcessCpuNs().
template <class Clocks>
class GuardPace {
 public:
  // Three system calls, a fault and two stack walks are 45 microseconds of a busy server and 65 of
  // one whose caches are cold after each wait. The pages of a large block are fresh, and some
  // hundred nanoseconds each: they have a budget besides.
  static constexpr uint64_t kCpuForOneNs = 20'000'000;
  static constexpr uint64_t kCpuForPageNs = 2'000'000;
  static constexpr uint64_t kLeastGapNs = 10'000'000;
  // What was left unused for so long is not made up for.
  static constexpr uint64_t kMostSavedNs = 10 * kCpuForOneNs;
  static constexpr uint64_t kLongestWaitNs = 200'000'000;

  // Whether it is time for a block, which is noted. `pages` of a large block, else 0.
  bool TakeTurn(Clocks& clocks, size_t pages) {
    const uint64_t now = clocks.CoarseNowNs();
    uint64_t not_before = not_before_.load(std::memory_order_relaxed);
    if (now < not_before) return false;
    const uint64_t one = next_.load(std::memory_order_relaxed);
    const uint64_t large = next_large_.load(std::memory_order_relaxed);
    const uint64_t due = pages == 0 ? one : std::max(one, large);
    if (due > seen_cpu_.load(std::memory_order_relaxed) &&
        (!Look(clocks, now) || due > seen_cpu_.load(std::memory_order_relaxed)))
      return false;
    // One thread has the turn, and this gap to note it.
    if (!not_before_.compare_exchange_strong(not_before, now + kLeastGapNs,
                                             std::memory_order_relaxed))
      return false;
    Pay(next_, kCpuForOneNs);
    if (pages != 0) Pay(next_large_, pages * kCpuForPageNs);
    return true;
  }

  // In the child of a fork, whose CPU time begins anew.
  void BeginAnew() {
    not_before_.store(0, std::memory_order_relaxed);
    look_from_.store(0, std::memory_order_relaxed);
    looked_.store(0, std::memory_order_relaxed);
    confined_from_.store(0, std::memory_order_relaxed);
    seen_cpu_.store(0, std::memory_order_relaxed);
    next_.store(kCpuForOneNs, std::memory_order_relaxed);
    next_large_.store(0, std::memory_order_relaxed);
  }

 private:
  void Pay(std::atomic<uint64_t>& next, uint64_t cpu_ns) {
    const uint64_t seen = seen_cpu_.load(std::memory_order_relaxed);
    const uint64_t from = seen < kMostSavedNs ? 0 : seen - kMostSavedNs;
    next.store(std::max(next.load(std::memory_order_relaxed), from) + cpu_ns,
               std::memory_order_relaxed);
  }

  // False: not yet.
  bool Look(Clocks& clocks, uint64_t now) {
    uint64_t from = look_from_.load(std::memory_order_relaxed);
    if (now < from ||
        !look_from_.compare_exchange_strong(from, now + kLeastGapNs, std::memory_order_relaxed))
      return false;
    const uint64_t cpu = UsedNs(clocks, now);
    uint64_t seen = seen_cpu_.load(std::memory_order_relaxed);
    while (seen < cpu && !seen_cpu_.compare_exchange_weak(seen, cpu, std::memory_order_relaxed)) {
    }
    if (seen > cpu) return true;  // by another thread, after this one
    const uint64_t used = cpu - seen;
    const uint64_t last = looked_.exchange(now, std::memory_order_relaxed);
    const uint64_t next = next_.load(std::memory_order_relaxed);
    const uint64_t lacks = (next > cpu ? next - cpu : 0) + 3 * kCpuForOneNs;
    const uint64_t passed = last == 0 ? used : now - last;  // as if it had never waited
    look_from_.store(now + Wait(lacks, passed, used), std::memory_order_relaxed);
    return true;
  }

  // Of CPU time; or of the clock, and then for good. None while a sandbox of the program's own
  // making has begun meanwhile.
  uint64_t UsedNs(Clocks& clocks, uint64_t now) {
    const bool first = looked_.load(std::memory_order_relaxed) == 0;
    const bool may = clocks.MayReadProcessCpu();
    if (first && !may) confined_from_.store(now, std::memory_order_relaxed);
    const uint64_t from = confined_from_.load(std::memory_order_relaxed);
    if (from != 0) return now - from;
    return may ? clocks.ProcessCpuNs() : seen_cpu_.load(std::memory_order_relaxed);
  }

  // For so much CPU time, if the process uses it as it lately did.
  static uint64_t Wait(uint64_t cpu_ns, uint64_t passed_ns, uint64_t used_ns) {
    const double wait = static_cast<double>(cpu_ns) * static_cast<double>(passed_ns) /
                        static_cast<double>(std::max<uint64_t>(used_ns, 1));
    if (wait >= static_cast<double>(kLongestWaitNs)) return kLongestWaitNs;
    return std::max(static_cast<uint64_t>(wait), kLeastGapNs);
  }

  std::atomic<uint64_t> not_before_{0};  // of the clock, as the next three
  std::atomic<uint64_t> look_from_{0};
  std::atomic<uint64_t> looked_{0};
  std::atomic<uint64_t> confined_from_{0};    // 0: by CPU time
  std::atomic<uint64_t> seen_cpu_{0};         // of the process's CPU time, as the next two
  std::atomic<uint64_t> next_{kCpuForOneNs};  // when a block may be guarded
  std::atomic<uint64_t> next_large_{0};
};

}  // namespace strata
