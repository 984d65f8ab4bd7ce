// Static tracepoints (USDT) by which a profiler outside of the process sees the samples:
// OpenTelemetry's otel_memory contract (its eBPF profiler's design document 00003, and pull request
// 1743 for the weight), which jemalloc is asked to fire too. Sits in profile.
//
//   otel_memory:alloc(pointer, size, weighted_bytes)   a block became a sample
//   otel_memory:free(pointer)                          a sampled block is about to be freed
//
// weighted_bytes: what the sample stands for without bias, size / (1 - exp(-size / interval)).
// Nobody listens most of the time: then a sample costs one load and one branch more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace strata {
namespace usdt_internal {

// How many listen to each probe: the kernel or the tool that attaches counts here. Named in
// assembly, because the notes in usdt.cpp have to name them.
#define STRATA_HIDDEN __attribute__((visibility("hidden")))
extern STRATA_HIDDEN volatile uint16_t g_alloc_listeners __asm__("strata_usdt_alloc_semaphore");
extern STRATA_HIDDEN volatile uint16_t g_free_listeners __asm__("strata_usdt_free_semaphore");
#undef STRATA_HIDDEN

STRATA_NOINLINE void FireAlloc(uintptr_t address, size_t size, uint64_t weighted_bytes);
STRATA_NOINLINE void FireFree(uintptr_t address);

}  // namespace usdt_internal

// `weight`: how many objects the sample stands for.
inline void ProbeAlloc(const void* p, size_t size, double weight) {
  if (STRATA_UNLIKELY(usdt_internal::g_alloc_listeners != 0)) {
    usdt_internal::FireAlloc(reinterpret_cast<uintptr_t>(p), size,
                             static_cast<uint64_t>(weight * static_cast<double>(size) + 0.5));
  }
}

inline void ProbeFree(const void* p) {
  if (STRATA_UNLIKELY(usdt_internal::g_free_listeners != 0))
    usdt_internal::FireFree(reinterpret_cast<uintptr_t>(p));
}

}  // namespace strata
