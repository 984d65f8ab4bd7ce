// A source of runs for heaps of superblocks whose memory is measured: it counts what it has given
// out. The heap locks.
#pragma once

#include "common.h"
#include "strata/layers/combine/free_list.h"

namespace bench {

// Runs of kUnit bytes out of one reservation; what comes back is used again.
template <size_t kUnit>
class CountedRuns {
 public:
  static constexpr size_t alignment = kUnit;
  static constexpr bool thread_safe = false;

  CountedRuns() {
    void* p = mmap(nullptr, kReserve, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) Die("no address space");
    memory_ = static_cast<char*>(p);
    next_ = strata::layers::RoundUp(reinterpret_cast<uintptr_t>(p), kUnit);
  }
  ~CountedRuns() { munmap(memory_, kReserve); }
  CountedRuns(const CountedRuns&) = delete;
  CountedRuns& operator=(const CountedRuns&) = delete;

  void* allocate(size_t size) {
    if (size > kUnit) Die("only whole runs here");
    held_ += kUnit;
    if (held_ > most_) most_ = held_;
    if (!free_.empty()) return free_.Pop();
    const uintptr_t p = next_;
    next_ += kUnit;
    if (next_ > reinterpret_cast<uintptr_t>(memory_) + kReserve) Die("reservation is full");
    return reinterpret_cast<void*>(p);
  }
  void deallocate(void* p, size_t) {
    held_ -= kUnit;
    free_.Push(p);
  }
  size_t most() const { return most_; }

 private:
  static constexpr size_t kReserve = size_t{8} << 30;
  char* memory_;
  uintptr_t next_;
  strata::layers::internal::BlockStack free_;
  size_t held_ = 0;
  size_t most_ = 0;
};

}  // namespace bench
