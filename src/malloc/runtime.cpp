// Starting the process-wide instance, and binding threads to its front end. See runtime.h.
#include "malloc/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/message.h"
#include "base/own_variables.h"
#include "malloc/bad_free.h"
#include "malloc/main_exit.h"
#include "malloc/stand_down.h"
#include "os/confinement.h"
#include "os/side_stack.h"

namespace strata {

constinit thread_local ThreadState t_state;

namespace runtime_internal {
Storage g_storage;  // zero until Start makes the instance in it
constinit std::atomic<RunState> g_state{RunState::kCold};
}  // namespace runtime_internal

namespace {

using runtime_internal::g_state;

pthread_key_t g_thread_key;
char g_without_cache;  // the key's value in a thread whose end is to be noticed all the same
bool g_has_thread_key = false;  // without it a thread's cache is lost when the thread ends
std::atomic<pthread_t> g_starter{};

PageHeapOptions HeapOptions(const Options& o) {
  PageHeapOptions p;
  p.release = o.release;
  p.hugepages = o.hugepages;
  if (o.release_short_ms != 0) p.busy_short_ms = o.release_short_ms;
  if (o.release_long_ms != 0) p.busy_long_ms = o.release_long_ms;
  if (o.release_peak_ms != 0) p.peak_ms = o.release_peak_ms;
  if (o.release_idle_ms != 0) p.idle_ms = o.release_idle_ms;
  p.hard_limit_bytes = o.heap_limit;
  return p;
}

size_t CpuNumber() {
  const Runtime& r = TheRuntime();
  return r.per_cpu ? CurrentVcpu(r.rseq) : static_cast<size_t>(sched_getcpu());
}

TierOptions TiersOf(const Options& o) {
  return {o.span_priority ? SpanOrder::kFullestFirst : SpanOrder::kLastIn,
          o.lifetime_filler ? FillerGroups::kByLifetime : FillerGroups::kTogether, CpuNumber};
}

void InitCpuCache(Runtime& r) {
  if (r.options.cache == CacheChoice::kThread) return;
  r.rseq = FindRseq();
  if (r.rseq.index == RseqIndex::kNone) return;
  const size_t vcpus = PossibleCpus();
  const size_t bytes = vcpus << kSlabShift;
  void* slabs = MapMetadata(bytes);
  if (slabs == nullptr) return;
  RseqOps ops;
  ops.where = {r.rseq.area_offset, r.rseq.index_offset};
  ops.slabs = slabs;
  ops.info = r.rseq;
  if (!r.cpu.Init(ops, &r.transfer, &r.arena, slabs, vcpus, r.options.cpu_cache_bytes,
                  r.options.adaptive ? CacheSizing::kByMisses : CacheSizing::kEqual)) {
    munmap(slabs, bytes);
    return;
  }
  r.per_cpu = true;
}

void EndThread(void* cache);

void Start() {
  const int saved = errno;
  if (MustStandDown()) {
    StandDown();
    errno = saved;
    g_state.store(RunState::kStoodDown, std::memory_order_release);
    return;
  }
  const bool secure = RunsForAnother();
  const Options options = ReadOptions(environ, secure);
  if (secure) DropOwnVariables(environ);
  // Said by the operator: the filter of the container allows what a thread and a socket take.
  if (options.control == ControlChoice::kAlways) TrustInheritedFilter();
  auto* r = ::new (runtime_internal::g_storage.bytes) Runtime(options);
  r->kernel.watch().Set(options.soft_limit);
  r->transfer.Init(&r->heap.transfer(), &r->arena);
  InitCpuCache(*r);
  if (options.cache == CacheChoice::kCpu && !r->per_cpu) {
    Message()
        .Text("STRATA_CACHE=cpu, but rseq is not to be had here; using per-thread caches")
        .Send();
  }
  g_has_thread_key = pthread_key_create(&g_thread_key, EndThread) == 0;
  errno = saved;
  // release: pairs with the acquire in CurrentState.
  g_state.store(RunState::kReady, std::memory_order_release);
}

}  // namespace

Runtime::Runtime(const Options& o)
    : options(o),
      thp(ReadThpMode()),
      thread_cache_limit(o.cpu_cache_bytes),
      heap((kernel.Init(DefaultWindow(), o.hugepages, arena), kernel), arena, HeapOptions(o),
           HandleBadFree, TiersOf(o)),
      thread_pool(arena),
      sampler(heap.page_map(), kernel.base(), sample_arena) {
  sampler.SetInterval(o.sample_interval);
}

RunState EnsureStarted() {
  RunState state = CurrentState();
  if (STRATA_LIKELY(state == RunState::kReady || state == RunState::kStoodDown)) return state;
  RunState expected = RunState::kCold;
  if (g_state.compare_exchange_strong(expected, RunState::kStarting, std::memory_order_acq_rel)) {
    g_starter.store(pthread_self(), std::memory_order_relaxed);
    OnSideStack([] { Start(); });
    return CurrentState();
  }
  while ((state = CurrentState()) == RunState::kStarting) {
    if (g_starter.load(std::memory_order_relaxed) == pthread_self()) return state;
    sched_yield();
  }
  return state;
}

bool BindThread() {
  Runtime& r = TheRuntime();
  if (!r.per_cpu || t_state.vforked || !ThreadHasRseq(r.rseq)) return false;
  t_state.slabs = r.cpu.slabs();
  return true;
}

// The random bytes that the kernel gave the process, with what tells one cache from the next. The
// stack protector's canary and the guard of stored pointers come from the same bytes; neither can
// be told from their product.
uint64_t LinkSeed(const void* cache) {
  static std::atomic<uint64_t> caches{0};
  uint64_t random[2] = {};
  if (const void* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM)))
    __builtin_memcpy(random, bytes, sizeof(random));
  return (random[0] | 1) * (random[1] | 1) + reinterpret_cast<uintptr_t>(cache) +
         caches.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
}

ProcessThreadCache* CacheOfThisThread() {
  ThreadState& state = t_state;
  if (STRATA_LIKELY(state.cache != nullptr) || state.cache_ended || state.vforked)
    return state.cache;
  Runtime& r = TheRuntime();
  {
    LockHolder hold(r.thread_list_lock);
    ProcessThreadCache* cache = r.thread_pool.New();
    if (cache == nullptr) return nullptr;
    cache->Bind(&r.heap, LinkSeed(cache));
    cache->next = r.thread_caches;
    if (cache->next != nullptr) cache->next->previous = cache;
    r.thread_caches = cache;
    state.cache = cache;
  }
  // May allocate (glibc does for keys from 32 on): the cache is in place by now.
  if (g_has_thread_key) OnSideStack([&state] { pthread_setspecific(g_thread_key, state.cache); });
  return state.cache;
}

namespace {

// Later destructors may still allocate: they go without a cache.
void EndCache(ProcessThreadCache* cache) {
  t_state.cache = nullptr;
  t_state.cache_ended = 1;
  Runtime& r = TheRuntime();
  cache->Flush(r.transfer);
  LockHolder hold(r.thread_list_lock);
  r.ended_hits += cache->hits.load(std::memory_order_relaxed);
  r.ended_misses_alloc += cache->misses_alloc.load(std::memory_order_relaxed);
  r.ended_misses_free += cache->misses_free.load(std::memory_order_relaxed);
  if (cache->next != nullptr) cache->next->previous = cache->previous;
  (cache->previous != nullptr ? cache->previous->next : r.thread_caches) = cache->next;
  r.thread_pool.Delete(cache);
}

// Runs as a thread-specific-data destructor: in pthread_exit and at a thread's return, not in exit.
void EndThread(void* value) {
  if (value != &g_without_cache) EndCache(static_cast<ProcessThreadCache*>(value));
  NoteThreadLeaves();
}

}  // namespace

void NoteEndOfThisThread() {
  if (g_has_thread_key && t_state.cache == nullptr)
    pthread_setspecific(g_thread_key, &g_without_cache);
}

}  // namespace strata
