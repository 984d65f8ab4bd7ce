// Starting the process-wide instance, and binding threads to its front end. See runtime.h.
#include "malloc/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/message.h"
#include "base/moment.h"
#include "base/own_variables.h"
#include "malloc/bad_free.h"
#include "malloc/checked.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/lifetimes.h"
#include "malloc/main_exit.h"
#include "malloc/predicted_path.h"
#include "malloc/price.h"
#include "malloc/stand_down.h"
#include "os/confinement.h"
#include "os/side_stack.h"
#include "strata/layers/detail/thread_key.h"

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
  p.release = p.prompt_release = o.release;
  p.ticks = o.background;
  p.hugepages = o.hugepages;
  p.filler_groups = o.lifetime_filler ? FillerGroups::kByDensity : FillerGroups::kAsSaid;
  if (o.release_short_ms != 0) p.busy_short_ms = o.release_short_ms;
  if (o.release_long_ms != 0) p.busy_long_ms = o.release_long_ms;
  if (o.release_peak_ms != 0) p.peak_ms = o.release_peak_ms;
  if (o.release_idle_ms != 0) p.idle_ms = o.release_idle_ms;
  p.hard_limit_bytes = o.heap_limit;
  return p;
}

size_t CpuNumber() {
  const Runtime& r = TheRuntime();
  return r.front().per_cpu ? CurrentVcpu(r.rseq) : static_cast<size_t>(sched_getcpu());
}

HugePageAdvice AdviceOf(const Options& o) {
  return o.hugepages ? HugePageAdvice::kWherePossible : HugePageAdvice::kNever;
}

TierOptions TiersOf(const Options& o) {
  return {o.span_priority ? SpanOrder::kFullestFirst : SpanOrder::kLastIn, CpuNumber};
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
  ops.where = {r.rseq.area_offset, r.rseq.index_offset, r.freed_mark};
  ops.slabs = slabs;
  ops.info = r.rseq;
  if (!r.front().cpu.Init(ops, &r.front().transfer, &r.arena, slabs, vcpus,
                          r.options.cpu_cache_bytes,
                          r.options.adaptive ? CacheSizing::kByMisses : CacheSizing::kEqual)) {
    munmap(slabs, bytes);
    return;
  }
  r.front().per_cpu = true;
}

void EndThread(void* cache);

constinit STRATA_LARGE OptionTexts g_option_texts{};

STRATA_ONCE void Start() {
  const int saved = errno;
  if (MustStandDown()) {
    StandDown();
    errno = saved;
    g_state.store(RunState::kStoodDown, std::memory_order_release);
    return;
  }
  const Rights rights = RunsForAnother() ? Rights::kBeyondCaller : Rights::kOfCaller;
  const Options options = ReadOptions(environ, rights, g_option_texts);
  if (rights == Rights::kBeyondCaller) DropOwnVariables(environ);
  // Said by the operator: the filter of the container allows what a thread and a socket take.
  if (options.control == ControlChoice::kAlways) TrustInheritedFilter();
  auto* r = ::new (runtime_internal::g_storage.bytes) Runtime(options);
  r->kernel.watch().Set(options.soft_limit);
  StartChecks(options);
  StartGuards(options, r->kernel.secret() * 0x9e3779b97f4a7c15u);
  OpenModel(*r);
  // Both place by the caller, and a debug build predicts something of all places.
  if (options.contexts != 0) {
    predicted_internal::g_predicts.store(Predicting::kNothing, std::memory_order_relaxed);
    SetContexts(options.contexts);
  }
  InitCpuCache(*r);
  if (options.cache == CacheChoice::kCpu && !r->front().per_cpu) {
    Message()
        .Text("STRATA_CACHE=cpu, but rseq is not available here; using per-thread caches")
        .Send();
  }
  g_has_thread_key = layers::MakeThreadKey(&g_thread_key, EndThread);
  errno = saved;
  if (options.price) StartPricing(options.weight);
  // release: pairs with the acquire in CurrentState.
  g_state.store(RunState::kReady, std::memory_order_release);
}

}  // namespace

STRATA_ONCE Runtime::Runtime(const Options& o)
    : options(o),
      thread_cache_limit(o.cpu_cache_bytes),
      heap((kernel.Init(DefaultWindow(), AdviceOf(o), arena, PageMap::kBytesAPage), kernel), arena,
           HeapOptions(o), HandleBadFree, TiersOf(o)),
      sampler(heap.page_map(), kernel.base(), BytesOf(kernel.window()), sample_arena) {
  freed_mark = MarkOf(kernel.secret());
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
  for (unsigned n = 0; (state = CurrentState()) == RunState::kStarting; ++n) {
    if (g_starter.load(std::memory_order_relaxed) == pthread_self()) return state;
    WaitBriefly(n);
  }
  return state;
}

const char* CacheModeName() {
  if (CurrentState() != RunState::kReady) return "none";
  const Runtime& r = TheRuntime();
  if (!r.front().per_cpu) return "per-thread";
  return r.rseq.index == RseqIndex::kMmCid ? "per-cpu (mm_cid)" : "per-cpu (cpu_id)";
}

namespace {

// Where libc does not, if the end of the thread will be noticed (EndThread).
bool RegisterThread() {
  if (!kRegistersForRseq || !g_has_thread_key || t_state.cache_ended) return false;
  if (!RegisterForRseq()) return false;
  NoteEndOfThisThread();
  return true;
}

}  // namespace

bool BindThread() {
  Runtime& r = TheRuntime();
  if (!r.front().per_cpu || t_state.vforked || Checks()) return false;
  if (!ThreadHasRseq(r.rseq) && !RegisterThread()) return false;
  t_state.slabs = r.front().cpu.slabs();
  return true;
}

ThreadCache* CacheOfThisThread() {
  ThreadState& state = t_state;
  if (STRATA_LIKELY(state.cache != nullptr) || state.cache_ended || state.vforked || Checks())
    return state.cache;
  if (TheRuntime().front().threads.Add(state.cache) == nullptr) return nullptr;
  // May allocate (glibc does for keys from 32 on): the cache is in place by now.
  if (g_has_thread_key) OnSideStack([&state] { pthread_setspecific(g_thread_key, state.cache); });
  return state.cache;
}

namespace {

// Later destructors may still allocate: they go without a cache.
void EndCache(ThreadCache* cache) {
  t_state.cache = nullptr;
  t_state.cache_ended = 1;
  ProcessHeap::Front& front = TheRuntime().front();
  front.threads.End(cache, front.transfer);
}

// Later destructors do without the per-CPU caches.
void EndRseq() {
  t_state.slabs = nullptr;
  t_state.countdown.Pause();
  t_state.cache_ended = 1;
  UnregisterForRseq();
}

// Runs as a thread-specific-data destructor: in pthread_exit and at a thread's return, not in exit.
void EndThread(void* value) {
  if (value != &g_without_cache) EndCache(static_cast<ThreadCache*>(value));
  if (kRegistersForRseq) EndRseq();
  NoteThreadLeaves();
}

}  // namespace

void NoteEndOfThisThread() {
  if (g_has_thread_key && t_state.cache == nullptr)
    pthread_setspecific(g_thread_key, &g_without_cache);
}

}  // namespace strata
