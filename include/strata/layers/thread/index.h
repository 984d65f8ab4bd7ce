// Whose heap is the caller's, as a number, for heaps that are one for each CPU or thread
// (per_thread.h, hoard.h). CpuIndex is the CPU that the caller runs on, and it may move at any
// moment: such heaps lock. ThreadIndex is a small number that no other living thread has. A thread
// that ends gives it back, so that a heap with a place for each number is inherited by a later
// thread and not lost. Claiming and giving back are one atomic operation each; asking is a load.
#pragma once

#include <sched.h>

#include <atomic>
#include <bit>

#include "strata/layers/heap.h"

namespace strata::layers {

// Says which of the heaps is the caller's, by a number that may be too large; and whether no two
// threads that live are ever told the same one of those that are not.
template <class W>
concept HeapChoice = requires {
  { W::index() } -> std::convertible_to<size_t>;
  { W::exclusive } -> std::convertible_to<bool>;
};

struct CpuIndex {
  static constexpr bool exclusive = false;
  static size_t index() {
    const int cpu = sched_getcpu();
    return cpu < 0 ? 0 : static_cast<size_t>(cpu);
  }
};

class ThreadIndex {
 public:
  static constexpr bool exclusive = true;
  static constexpr size_t most = 256;

  // Below `most`; or `most` when so many threads live, or this one is past its thread-local
  // destructors.
  static size_t index() {
    const size_t mine = t_number;
    return mine != kUnknown ? mine - 1 : Claim();
  }

 private:
  static constexpr size_t kUnknown = 0;
  static constexpr size_t kWords = most / 64;

  // Gives the number back when the thread ends.
  struct Returner {
    bool armed = false;
    ~Returner() {
      const size_t slot = t_number - 1;
      t_number = most + 1;
      // release: pairs with the acquire in Claim; the next owner sees the heaps as this one left
      // them.
      g_taken[slot / 64].fetch_and(~(uint64_t{1} << (slot % 64)), std::memory_order_release);
    }
  };

  [[gnu::noinline]] static size_t Claim() {
    for (size_t w = 0; w < kWords; ++w) {
      uint64_t taken = g_taken[w].load(std::memory_order_relaxed);
      while (taken != ~uint64_t{0}) {
        const auto bit = static_cast<size_t>(std::countr_one(taken));
        if (!g_taken[w].compare_exchange_weak(taken, taken | (uint64_t{1} << bit),
                                              std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
          continue;
        }
        t_number = w * 64 + bit + 1;
        static thread_local Returner returner;
        returner.armed = true;  // makes it, and so its destructor
        return t_number - 1;
      }
    }
    return most;
  }

  static inline std::atomic<uint64_t> g_taken[kWords] = {};
  static inline constinit thread_local size_t t_number = kUnknown;
};

}  // namespace strata::layers
