// Maps metadata and remembers where. See metadata_memory.h.
#include "os/metadata_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "base/lock.h"
#include "os/confinement.h"
#include "os/resident.h"

namespace strata {
namespace {

// Where metadata was mapped. The kernel tends to map downwards, so most mappings extend the last
// range; if the table ever fills up, the rest is not measured.
struct MetadataRange {
  std::atomic<uintptr_t> start;
  std::atomic<uintptr_t> end;
};
constexpr size_t kMaxMetadataRanges = 512;
constinit STRATA_LARGE MetadataRange g_metadata[kMaxMetadataRanges];
constinit std::atomic<size_t> g_metadata_ranges{0};
constinit Lock g_metadata_lock{LockRank::kMetadata};

void RememberMetadata(uintptr_t start, size_t bytes) {
  LockHolder hold(g_metadata_lock);
  const size_t n = g_metadata_ranges.load(std::memory_order_relaxed);
  if (n != 0 && g_metadata[n - 1].start.load(std::memory_order_relaxed) == start + bytes) {
    g_metadata[n - 1].start.store(start, std::memory_order_relaxed);
  } else if (n < kMaxMetadataRanges) {
    g_metadata[n].start.store(start, std::memory_order_relaxed);
    g_metadata[n].end.store(start + bytes, std::memory_order_relaxed);
    g_metadata_ranges.store(n + 1, std::memory_order_release);
  }
}

}  // namespace

void* MapMetadata(size_t bytes) {
  const ErrnoKeeper keep;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  // Metadata is sparse: under THP mode `always` a hugepage would make megabytes resident for a few
  // bytes.
  if (MayAdvise()) madvise(p, bytes, MADV_NOHUGEPAGE);
  RememberMetadata(reinterpret_cast<uintptr_t>(p), bytes);
  return p;
}

size_t ResidentMetadata() {
  size_t bytes = 0;
  const size_t n = g_metadata_ranges.load(std::memory_order_acquire);
  for (size_t i = 0; i < n && i < kMaxMetadataRanges; ++i) {
    const uintptr_t start = g_metadata[i].start.load(std::memory_order_relaxed);
    const uintptr_t end = g_metadata[i].end.load(std::memory_order_relaxed);
    if (end > start) bytes += ResidentBytes(start, end - start);
  }
  return bytes;
}

}  // namespace strata
