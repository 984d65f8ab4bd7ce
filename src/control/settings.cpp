// The table of run-time settings. See settings.h.
#include "control/settings.h"

#include <errno.h>
#include <string.h>

#include "base/parse_value.h"
#include "malloc/limits.h"
#include "malloc/live_options.h"
#include "malloc/option_table.h"
#include "malloc/price.h"
#include "malloc/runtime.h"
#include "strata/strata.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {
namespace {

int SetRelease(const char* value) {
  bool on = false;
  if (!ParseSwitch(value, on)) return EINVAL;
  StoreOption(TheRuntime().options.release, on);
  if (!on) TheRuntime().heap.page_heap().NoteNoTicks();
  return 0;
}
void GetRelease(TextSink& sink) { sink.Text(ReleaseWanted() ? "on" : "off"); }

int SetHeapLimit(const char* value) {
  uint64_t n = 0;
  if (!ParseNumber(value, NumberForm::kSize, UINT64_MAX, n)) return EINVAL;
  strata::SetHeapLimit(size_t{n});
  StoreOption(TheRuntime().options.heap_limit, size_t{n});
  return 0;
}
void GetHeapLimit(TextSink& sink) { sink.Number(LoadOption(TheRuntime().options.heap_limit)); }

int SetSoftLimit(const char* value) {
  SoftLimitSetting soft;
  if (!ParseSoftLimit(value, soft)) return EINVAL;
  strata::SetSoftLimit(soft);
  return 0;
}
void GetSoftLimit(TextSink& sink) {
  const SoftLimitSetting soft = TheRuntime().kernel.watch().soft();
  if (soft.kind == SoftLimitSetting::Kind::kOff) {
    sink.Text("off");
  } else {
    sink.Number(soft.value).Text(soft.kind == SoftLimitSetting::Kind::kPercent ? "%" : "");
  }
}

int SetPrice(const char* value) {
  bool on = false;
  if (!ParseSwitch(value, on)) return EINVAL;
  SetPricing(on ? Pricing::kOn : Pricing::kOff, LoadOption(TheRuntime().options.weight));
  return 0;
}
void GetPrice(TextSink& sink) { sink.Text(LoadOption(TheRuntime().options.price) ? "on" : "off"); }

int SetWeight(const char* value) {
  uint64_t n = 0;
  if (!ParseNumber(value, NumberForm::kPlain, kMostWeight, n) || n == 0) return EINVAL;
  StoreOption(TheRuntime().options.weight, static_cast<uint32_t>(n));
  return 0;
}
void GetWeight(TextSink& sink) { sink.Number(LoadOption(TheRuntime().options.weight)); }

int SetStatsInterval(const char* value) {
  uint64_t n = 0;
  if (!ParseNumber(value, NumberForm::kPlain, 86400, n)) return EINVAL;
  StoreOption(TheRuntime().options.stats_interval_s, static_cast<uint32_t>(n));
  return 0;
}
void GetStatsInterval(TextSink& sink) { sink.Number(StatsIntervalSeconds()); }

int SetSample(const char* value) {
  uint64_t n = 0;
  if (!ParseNumber(value, NumberForm::kSize, UINT64_MAX, n)) return EINVAL;
  StoreOption(TheRuntime().options.adapts_sample, false);  // before: what is set now stays
  TheRuntime().sampler.SetInterval(n);
  return 0;
}
void GetSample(TextSink& sink) { sink.Number(TheRuntime().sampler.rate().interval); }

int SetAdaptive(const char* value) {
  bool on = false;
  if (!ParseSwitch(value, on)) return EINVAL;
  Runtime& r = TheRuntime();
  if (r.front().per_cpu) r.front().cpu.SetSizing(on ? CacheSizing::kByMisses : CacheSizing::kEqual);
  StoreOption(r.options.adaptive, on);
  return 0;
}
void GetAdaptive(TextSink& sink) {
  sink.Text(LoadOption(TheRuntime().options.adaptive) ? "on" : "off");
}

int SetCpuCacheBytes(const char* value) {
  uint64_t n = 0;
  if (!ParseNumber(value, NumberForm::kSize, uint64_t{1} << 30, n)) return EINVAL;
  Runtime& r = TheRuntime();
  StoreOption(r.options.cpu_cache_bytes, size_t{n});
  r.thread_cache_limit.store(n, std::memory_order_relaxed);
  if (r.front().per_cpu)
    r.front().cpu.SetShare(n);  // LimitsTick lowers it where a CPU quota wants that
  return 0;
}
void GetCpuCacheBytes(TextSink& sink) { sink.Number(CpuCacheBytes()); }

constexpr SettingRow kTable[] = {
    {"sample", "bytes", "profiles: one allocation in so many bytes is sampled; 0: off", SetSample,
     GetSample},
    {"adaptive", "on|off", "share the caches' memory by misses; off: the same for each vCPU",
     SetAdaptive, GetAdaptive},
    {"cpu_cache_bytes", "bytes", "memory that caches may hold for each virtual CPU in use",
     SetCpuCacheBytes, GetCpuCacheBytes},
    {"release", "on|off", "give free memory back by itself", SetRelease, GetRelease},
    {"heap_limit", "bytes", "malloc returns null beyond this much heap; 0: no limit", SetHeapLimit,
     GetHeapLimit},
    {"soft_limit", "bytes|PERCENT%|off",
     "near this part of the cgroup's memory limit, or this much memory of its own, give back",
     SetSoftLimit, GetSoftLimit},
    {"price", "on|off", "while memory or process ids are scarce, who takes more waits", SetPrice,
     GetPrice},
    {"weight", "1-10000", "with price: how much of what is left this process may take", SetWeight,
     GetWeight},
    {"stats_interval", "seconds",
     "rewrite the files of STRATA_STATS and STRATA_PROMETHEUS so often; 0: only at exit",
     SetStatsInterval, GetStatsInterval},
};

}  // namespace

const SettingRow* SettingTable(size_t* rows) {
  *rows = sizeof(kTable) / sizeof(kTable[0]);
  return kTable;
}

const SettingRow* FindSetting(const char* name) {
  for (const SettingRow& row : kTable) {
    if (strcmp(row.name, name) == 0) return &row;
  }
  return nullptr;
}

int ApplySetting(const char* name, const char* value) {
  const SettingRow* row = FindSetting(name);
  return row == nullptr ? ENOENT : row->set(value);
}

}  // namespace strata

STRATA_EXPORT int strata_set(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return EINVAL;
  if (strata::EnsureStarted() != strata::RunState::kReady) return ENOTSUP;
  return strata::ApplySetting(name, value);
}

STRATA_EXPORT size_t strata_get(const char* name, char* buffer, size_t capacity) {
  strata::TextSink sink(buffer, buffer == nullptr ? 0 : capacity);
  if (name != nullptr && strata::EnsureStarted() == strata::RunState::kReady) {
    if (const strata::SettingRow* row = strata::FindSetting(name)) row->get(sink);
  }
  return sink.Finish();
}
