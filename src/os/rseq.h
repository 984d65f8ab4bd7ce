// The rseq area that is registered for each thread: whether it is there, and where its fields lie.
// The kernel lets a thread have one registration, so Strata shares glibc's and makes none; it
// writes nothing of it but rseq_cs, as the ABI asks of all who share it, as long as it is
// registered. musl makes none: there each thread is registered with an area of ours. Sits in os.
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

// What this process has. Makes no system call where libc registers threads.
RseqInfo FindRseq();

// By the C library: os/glibc/rseq_area.cpp, os/musl/rseq_area.cpp. Where the area lies, and whether
// there is one; registers the calling thread where libc doesn't.
bool FindRseqArea(ptrdiff_t* offset);
// Where libc doesn't: whether the calling thread is registered now. It must be taken off again
// before it ends, for its area may be unmapped while it still runs.
bool RegisterForRseq();
void UnregisterForRseq();
// Whether that is so here.
extern const bool kRegistersForRseq;

// Whether the calling thread is registered (with glibc, a thread made by a raw clone is not).
inline bool ThreadHasRseq(const RseqInfo& info) {
  const char* area = static_cast<const char*>(__builtin_thread_pointer()) + info.area_offset;
  return *reinterpret_cast<const volatile int32_t*>(area + kRseqCpuIdOffset) >= 0;
}

// The calling thread's area is left from a process in which it was registered.
inline void ForgetRegistration(const RseqInfo& info) {
  if (info.index == RseqIndex::kNone) return;
  char* area = static_cast<char*>(__builtin_thread_pointer()) + info.area_offset;
  *reinterpret_cast<volatile int32_t*>(area + kRseqCpuIdOffset) = -1;
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
size_t PossibleCpus(const char* list = "/sys/devices/system/cpu/possible");

}  // namespace strata
