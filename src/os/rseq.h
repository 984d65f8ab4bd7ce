// The rseq area that glibc registered for each thread: whether it is there, and where its fields
// lie. The kernel lets a thread have one registration, so Strata shares glibc's and makes none; it
// writes nothing of it but rseq_cs, as the ABI asks of all who share it. Sits in os.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class RseqIndex : uint8_t { kNone, kCpuId, kMmCid };

struct RseqInfo {
  RseqIndex index = RseqIndex::kNone;
  ptrdiff_t area_offset = 0;   // of struct rseq from the thread pointer
  ptrdiff_t index_offset = 0;  // of the field to index slabs with, from the thread pointer
};

inline constexpr size_t kRseqCpuIdOffset = 4;  // in struct rseq: linux/rseq.h
inline constexpr size_t kRseqCsOffset = 8;
inline constexpr size_t kRseqMmCidOffset = 24;

// What this process has. Makes no system call.
RseqInfo FindRseq();

// Whether the calling thread is registered (a thread made by a raw clone is not).
inline bool ThreadHasRseq(const RseqInfo& info) {
  const char* area = static_cast<const char*>(__builtin_thread_pointer()) + info.area_offset;
  return *reinterpret_cast<const volatile int32_t*>(area + kRseqCpuIdOffset) >= 0;
}

inline size_t CurrentVcpu(const RseqInfo& info) {
  const char* field = static_cast<const char*>(__builtin_thread_pointer()) + info.index_offset;
  return *reinterpret_cast<const volatile uint32_t*>(field);
}

// Aborts every restartable sequence now running in this process, on any CPU; without it another
// CPU's slab can't be drained. Returns false if the kernel refuses, or must not be asked.
bool FenceRseq();
bool MayFenceRseq();

// The number of vCPU ids that can occur.
size_t PossibleCpus();

}  // namespace strata
