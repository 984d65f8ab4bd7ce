// The one process-wide instance: the heap, its front end, the options and the background thread, in
// static storage at a fixed address, started by the first call that needs it. Sits in malloc;
// nothing below knows it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/cpu_cache.h"
#include "cache/domain_transfer_cache.h"
#include "cache/thread_cache.h"
#include "heaps/strata.h"
#include "malloc/options.h"
#include "os/rseq.h"
#include "os/system_kernel.h"
#include "profile/sample_countdown.h"
#include "profile/sampler.h"

struct strata_scope;

namespace strata {

using ProcessHeap = StrataHeap<SystemKernel>;
using ProcessTransfer = DomainTransferCache<ProcessHeap::Transfer, RunningCpu>;
using ProcessThreadCache = ThreadCache<ProcessHeap>;
using ProcessCpuCache = CpuCache<RseqOps, ProcessTransfer>;

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
  bool per_cpu = false;
  ThpMode thp = ThpMode::kUnknown;
  std::atomic<size_t> thread_cache_limit;
  ProcessHeap heap;
  ProcessTransfer transfer;  // the front ends' way to the heap's transfer cache
  ProcessCpuCache cpu;

  // All thread caches, for statistics and fork; the records are recycled.
  Lock thread_list_lock{LockRank::kThreadList};
  RecordPool<ProcessThreadCache> thread_pool STRATA_GUARDED_BY(thread_list_lock);
  ProcessThreadCache* thread_caches STRATA_GUARDED_BY(thread_list_lock) = nullptr;
  // What ended threads had counted; under thread_list_lock.
  uint64_t ended_hits = 0;
  uint64_t ended_misses_alloc = 0;
  uint64_t ended_misses_free = 0;

  // Estimate of asked bytes per class: sampled at misses, so the fast path pays nothing.
  struct AskedSample {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> count{0};
  };
  AskedSample asked[kMaxClasses];

  // The sampler's records have an arena of their own: they may not use up what the heap's arena has
  // put by for the records of the heap.
  MetadataArena sample_arena{MapMetadata};
  Sampler sampler;
};

// Per-thread state: all there is in TLS but the stack walker's 8 bytes (design §4.3: at most 64
// bytes, initial-exec, no destructor).
struct ThreadState {
  // Set once the thread may use the per-CPU caches; null sends its frees to the slow path, and its
  // allocations go there because its stretch is 0 as long as this is null.
  void* slabs = nullptr;
  [[no_unique_address]] SampleCountdown countdown;  // the next three lie in its padding
  uint32_t number : 28 = 0;           // among all threads that ever had a sample drawn; 0: none yet
  uint32_t at_work : 1 = 0;           // does the library's own work now
  uint32_t cache_ended : 1 = 0;       // the thread is ending: go without a cache
  uint32_t starts_no_thread : 1 = 0;  // NoThreadStart
  uint32_t vforked : 1 = 0;           // keep off the slabs, start no thread (vfork.cpp)
  ProcessThreadCache* cache = nullptr;  // where rseq is not to be had
  strata_scope* scope = nullptr;        // the thread's stretch is 0 as long as it is in one
};
static_assert(sizeof(ThreadState) <= 56);
extern constinit __attribute__((tls_model("initial-exec"))) thread_local ThreadState t_state;

namespace runtime_internal {
struct Storage {
  alignas(Runtime) unsigned char bytes[sizeof(Runtime)];
};
extern Storage g_storage;
extern std::atomic<RunState> g_state;
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

// The calling thread's cache in per-thread mode; null when it has none and may have none.
ProcessThreadCache* CacheOfThisThread();

// From now on NoteThreadLeaves (main_exit.h) is called when the calling thread ends.
void NoteEndOfThisThread();

// Lets the calling thread use the per-CPU caches, if it may; returns whether.
bool BindThread();

}  // namespace strata
