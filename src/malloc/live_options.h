// The options that settings change while the program runs. The options struct holds what the
// process was started with and what settings made of it since; both sides go through these, so that
// a change from another thread is no data race. Nothing is ordered by them. Sits in malloc; the
// settings are in control/settings.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "malloc/runtime.h"

namespace strata {

template <class T>
T LoadOption(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}
template <class T>
void StoreOption(T& field, T value) {
  __atomic_store_n(&field, value, __ATOMIC_RELAXED);
}

// STRATA_RELEASE as it is now.
inline bool ReleaseWanted() { return LoadOption(TheRuntime().options.release); }
// STRATA_CPU_CACHE_BYTES as it is now.
inline size_t CpuCacheBytes() { return LoadOption(TheRuntime().options.cpu_cache_bytes); }
// STRATA_STATS_INTERVAL as it is now, in seconds; 0: none.
inline uint32_t StatsIntervalSeconds() { return LoadOption(TheRuntime().options.stats_interval_s); }

}  // namespace strata
