// What is done near the process's limits. See limits.h.
#include "malloc/limits.h"

#include "malloc/live_options.h"
#include "malloc/price.h"
#include "malloc/release_now.h"
#include "profile/text_sink.h"

namespace strata {
namespace {

// The process may be moved to another cgroup, and a limit may be set where there was none.
constexpr uint32_t kTicksBetweenSearches = 5;
uint32_t g_ticks = 0;  // the background thread's

// A process may run on more CPUs in turn than its quota lets it use over time. The affinity is no
// bound to go by: a thread knows only its own, and vCPU ids keep to it anyway.
void BoundCachesByQuota(Runtime& r) {
  if (!r.front().per_cpu) return;
  const size_t cpus = (r.kernel.watch().state().cpu_quota + 999) / 1000;
  const size_t share = ShareWithin(CpuCacheBytes(), r.front().cpu.active_vcpus(), cpus);
  if (share != r.front().cpu.share()) r.front().cpu.SetShare(share);
}

}  // namespace

void LimitsTick() {
  Runtime& r = TheRuntime();
  if (++g_ticks % kTicksBetweenSearches == 0) r.kernel.watch().Rediscover();
  r.heap.page_heap().CheckSoftLimit();
  RelieveMemory();
  PriceTick();
  BoundCachesByQuota(r);
}

// Near the limit the estimate of demand no longer counts: better a page fault than the kernel's
// killer. A drained cache starts with no room, so caches stay smaller while this happens often.
void RelieveMemory() {
  if (t_state.vforked) return;  // left to the parent
  const size_t wanted = TheRuntime().heap.page_heap().TakeReliefWanted();
  if (wanted != 0) ReleaseBytes(wanted);
}

void SetSoftLimit(SoftLimitSetting soft) {
  Runtime& r = TheRuntime();
  r.kernel.watch().Set(soft);
  r.kernel.watch().Rediscover();
  r.heap.page_heap().CheckSoftLimit();
  RelieveMemory();
}

void SetHeapLimit(size_t bytes) {
  Runtime& r = TheRuntime();
  r.heap.page_heap().SetHardLimit(bytes);
  // What lies free makes room for what is still asked for.
  const size_t backed = r.heap.page_heap().Stats().backed;
  if (bytes != 0 && backed > bytes) ReleaseBytes(backed - bytes);
}

LimitStats ReadLimits() {
  Runtime& r = TheRuntime();
  const MemoryState m = r.kernel.watch().state();
  LimitStats out;
  out.cgroup_limit = m.cgroup_limit;
  out.cgroup_usage = m.cgroup_usage;
  out.cpu_quota = m.cpu_quota / 1000.0;
  out.soft_limit = m.soft_limit;
  out.hard_limit = r.heap.page_heap().hard_limit();
  return out;
}

const char* LimitsInWords(char* text, size_t capacity) {
  TheRuntime().kernel.watch().Headroom();
  const LimitStats m = ReadLimits();
  TextSink sink(text, capacity);
  const auto say = [&sink](const char* name, size_t bytes) {
    sink.Text(name);
    if (bytes == 0) {
      sink.Text("none");
    } else {
      sink.Mebibytes(bytes);
    }
  };
  say(", cgroup limit ", m.cgroup_limit);
  sink.Text(", CPU quota ");
  if (m.cpu_quota == 0) {
    sink.Text("none");
  } else {
    sink.Fraction(m.cpu_quota);
  }
  say(", soft limit ", m.soft_limit);
  say(", heap limit ", m.hard_limit);
  sink.Finish();
  return text;
}

}  // namespace strata
