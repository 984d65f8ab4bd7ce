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
#include "cache/thread_cache.h"
#include "heaps/strata.h"
#include "malloc/options.h"
#include "os/rseq.h"
#include "os/system_kernel.h"

namespace strata {

using ProcessHeap = StrataHeap<SystemKernel>;
using ProcessCpuCache = CpuCache<RseqOps, ProcessHeap::Transfer>;

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
  size_t thread_cache_limit = 0;
  ProcessHeap heap;
  ProcessCpuCache cpu;

  // All thread caches, for statistics and fork; the records are recycled.
  Lock thread_list_lock{LockRank::kThreadList};
  RecordPool<ThreadCache> thread_pool STRATA_GUARDED_BY(thread_list_lock);
  ThreadCache* thread_caches STRATA_GUARDED_BY(thread_list_lock) = nullptr;
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
};

// Per-thread state: all there is in TLS (design §4.3: at most 64 bytes, initial-exec, no
// destructor).
struct ThreadState {
  void* slabs =
      nullptr;  // set once the thread may use the per-CPU caches; null sends it to the slow path
  ThreadCache* cache = nullptr;  // where rseq is not to be had
  bool cache_ended = false;      // the thread is ending: go without a cache
};
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
ThreadCache* CacheOfThisThread();

// Lets the calling thread use the per-CPU caches, if it may; returns whether.
bool BindThread();

}  // namespace strata
