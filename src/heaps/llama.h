// LLAMA's heap, as a composition: objects placed by their predicted lifetime, on hugepages of
// Strata's page heap. The predictor is a parameter. docs/llama.md says how it works, docs/heaps.md
// when to use it. Sits in heaps.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "heaps/page_heap_source.h"
#include "lifetime/call_site_predictor.h"
#include "lifetime/huge_page_supply.h"
#include "lifetime/lifetime_heap.h"
#include "lifetime/unknown_predictor.h"
#include "os/clock.h"
#include "os/metadata_memory.h"
#include "strata/layers/heap.h"

namespace strata {

// Some milliseconds late, which deadlines of 20 ms and more bear, and cheap.
struct CoarseClock {
  static uint64_t NowNs() { return ReadClock(CLOCK_MONOTONIC_COARSE); }
};

// LLAMA keeps no empty page (Maas et al., CACM 67(4), 2024, section 3.2). A few spare those that
// are emptied and needed again at once.
struct KeepAFew {
  static constexpr size_t Most(size_t in_use) { return in_use / 16; }
  static constexpr size_t MostMore(size_t most_used) { return most_used / 2 + (4 << 20); }
  static constexpr uint64_t kSoonNs = kPageSoonNs;
};

template <class Predictor, class Clock = CoarseClock>
struct ByLifetime {
  template <layers::Heap Below>
  class On : public layers::Over<Below> {
   public:
    static constexpr size_t alignment = kGranule;
    static constexpr bool thread_safe = true;

    template <class... Args>
      requires std::constructible_from<Below, Args...>
    constexpr explicit On(Args&&... args)
        : layers::Over<Below>(std::forward<Args>(args)...), heap_(this->next_, MapMetadata) {}

    STRATA_ALWAYS_INLINE void* allocate(size_t size) { return allocate(size, alignment); }
    STRATA_ALWAYS_INLINE void* allocate(size_t size, size_t align) {
      const uintptr_t site = CallSite();
      void* p = heap_.Allocate(size, align, predictor_.ClassOf(size, site));
      if constexpr (requires { predictor_.Allocated(p, size, site); }) {
        if (p != nullptr) predictor_.Allocated(p, size, site);
      }
      return p;
    }
    STRATA_ALWAYS_INLINE void deallocate(void* p) {
      if constexpr (requires { predictor_.Freed(p); }) predictor_.Freed(p);
      heap_.Deallocate(p);
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    size_t size_of(void* p) { return heap_.SizeOf(p); }

    template <class F>
    void visit_locks(F&& f) {
      const auto visit = [&f](Lock& lock) {
        ForkLock for_fork{lock};
        f(for_fork);
      };
      heap_.VisitLocksOfThreads(f);
      if constexpr (requires { predictor_.VisitLocks(visit); }) predictor_.VisitLocks(visit);
      heap_.VisitLocks(visit);
      layers::Over<Below>::visit_locks(f);
    }

    auto& heap() { return heap_; }
    Predictor& predictor() { return predictor_; }

   private:
    // A lock of Strata's as the fork handlers of the layers know one.
    struct ForkLock {
      void lock_for_fork() STRATA_NO_TSA {
        lock.AcquireForFork();
        Lock::BeginFork();
      }
      void unlock_after_fork() STRATA_NO_TSA {
        Lock::EndFork();
        lock.ReleaseAfterFork();
      }
      Lock& lock;
    };

    // Of the function into which all this is inlined, malloc itself: its return address, and how
    // deep the stack is, which tells most paths to it apart. Twelve bits of that are the same in
    // all threads.
    STRATA_ALWAYS_INLINE static uintptr_t CallSite() {
      return reinterpret_cast<uintptr_t>(__builtin_return_address(0)) ^
             (arch::StackPointer() & 0xfff) << 48;
    }

    LifetimeHeap<Below, Clock, 16, SparePage::kOne> heap_;
    Predictor predictor_;
  };
};

template <class Predictor>
using LlamaOver = layers::Stack<ByLifetime<Predictor>, PageHeapSource<kHugePageSize, KeepAFew>>;

using LlamaHeap = LlamaOver<CallSitePredictor<CoarseClock>>;

}  // namespace strata
