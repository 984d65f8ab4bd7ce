// The one process-wide instance: the heap, its front end, the options and the background thread, in
// static storage at a fixed address, started by the first call that needs it. Sits in malloc;
// nothing below knows it. What the heap is made of: heaps/strata.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/freed_mark.h"
#include "cache/mark_looks.h"
#include "cache/rseq_ops.h"
#include "heaps/front_end.h"
#include "heaps/strata.h"
#include "malloc/options.h"
#include "os/metadata_memory.h"
#include "os/rseq.h"
#include "os/system_kernel.h"
#include "os/thp_mode.h"
#include "os/topology.h"
#include "profile/sample_countdown.h"
#include "profile/sampler.h"

struct strata_scope;

namespace strata {

template <class Shared>
using ProcessFrontEnd = FrontEnd<RseqOps, RunningCpu, Shared>;
using ProcessHeap = StrataHeap<SystemKernel, ProcessFrontEnd>;

enum class RunState : uint8_t {
  kCold,      // nothing made yet
  kStarting,  // one thread is in Start
  kReady,
  kStoodDown,  // a sanitizer or valgrind is here: every call goes to the next allocator
};

struct Runtime {
  explicit Runtime(const Options& o);

  Options options;
  SystemKernel kernel;
  MetadataArena arena{MapMetadata};
  RseqInfo rseq;
  std::atomic<size_t> thread_cache_limit;
  FreedMark freed_mark = FreedMark::kNone;  // of this process; set at the start
  MarkLooks mark_looks;
  ProcessHeap heap;

  // Estimate of requested bytes per class: sampled at misses, so the fast path pays nothing.
  struct RequestedSample {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> count{0};
  };
  RequestedSample requested[kMaxClasses];

  // The sampler's records have an arena of their own: they must not use up what the heap's arena
  // has put by for the records of the heap.
  MetadataArena sample_arena{MapMetadata};
  Sampler sampler;

  STRATA_ALWAYS_INLINE ProcessHeap::Front& front() { return heap.front(); }
  STRATA_ALWAYS_INLINE const ProcessHeap::Front& front() const { return heap.front(); }
};

// Per-thread state: all there is in TLS but the stack walker's 8 bytes. Together at most 64 bytes
// and initial-exec: a library that is loaded by dlopen takes them from the little that glibc keeps
// spare. Without a destructor, whose registration would allocate.
struct ThreadState {
  // Set once the thread may use the per-CPU caches; null sends its frees to the slow path, and its
  // allocations go there because its stretch is 0 as long as this is null.
  void* slabs = nullptr;
  [[no_unique_address]] SampleCountdown countdown;  // the next three lie in its padding
  uint32_t number : 27 = 0;           // among all threads that ever had a sample drawn; 0: none yet
  uint32_t unguarded : 1 = 0;         // NoGuards
  uint32_t at_work : 1 = 0;           // does the library's own work now
  uint32_t cache_ended : 1 = 0;       // the thread is ending: go without a cache
  uint32_t starts_no_thread : 1 = 0;  // NoThreadStart
  uint32_t vforked : 1 = 0;           // keep off the slabs, start no thread (vfork.cpp)
  ThreadCache* cache = nullptr;       // where rseq is not available
  strata_scope* scope = nullptr;      // the thread's stretch is 0 as long as it is in one
};
static_assert(sizeof(ThreadState) <= 56);
extern constinit __attribute__((tls_model("initial-exec"))) thread_local ThreadState t_state;

namespace runtime_internal {
struct Storage {
  alignas(Runtime) unsigned char bytes[sizeof(Runtime)];
};
// Hidden, or each file would take their addresses from a table.
extern __attribute__((visibility("hidden"))) Storage g_storage;
extern __attribute__((visibility("hidden"))) std::atomic<RunState> g_state;
}  // namespace runtime_internal

STRATA_ALWAYS_INLINE RunState CurrentState() {
  // acquire: pairs with the release in Start, so that the instance is seen whole.
  return runtime_internal::g_state.load(std::memory_order_acquire);
}

// Valid only in state kReady (or while starting, for the starter).
STRATA_ALWAYS_INLINE Runtime& TheRuntime() {
  return *reinterpret_cast<Runtime*>(runtime_internal::g_storage.bytes);
}

// Makes the instance if need be; returns the state reached, kReady or kStoodDown. A call from
// inside the start itself (a libc function that allocates) gets kStarting.
RunState EnsureStarted();

// Which caches the threads use, in words.
const char* CacheModeName();

// The calling thread's cache in per-thread mode; null when it has none and may have none.
ThreadCache* CacheOfThisThread();

// From now on NoteThreadLeaves (main_exit.h) is called when the calling thread ends.
void NoteEndOfThisThread();

// Lets the calling thread use the per-CPU caches, if it may; returns whether.
bool BindThread();

}  // namespace strata
