// The real kernel behind os/page_kernel.h: a window of address space in which the heap's memory is
// mapped piece by piece. The window itself is not reserved, so that RLIMIT_AS, RLIMIT_DATA and
// strict overcommit count only what the heap maps, at whatever time they are set; mappings never
// replace someone else's. The two arrays of the page map, which grow with it, lie elsewhere, each
// at a place of its own. Sits in os.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/size_class.h"
#include "os/memory_watch.h"
#include "os/page_kernel.h"

namespace strata {

enum class ThpMode : uint8_t { kUnknown, kAlways, kMadvise, kNever };

class SystemKernel {
 public:
  // Picks the window; maps nothing. `arena`: where the records for what will be mapped come from.
  void Init(HugeLength window, bool hugepages, MetadataArena& arena);

  HugeLength window() const { return window_; }
  HugeLength past_gibibyte() const {
    return HugeLength(base_ % (size_t{1} << 30) >> kHugePageShift);
  }
  MapResult Map(HugeRange range);
  bool Release(const NativeRange* ranges, size_t n);
  void AdviseHuge(HugeRange range);
  void AdviseNoHuge(HugeRange range);
  void SplitHugePage(HugePageId page, NativeRange used);
  bool Collapse(HugeRange range);
  uint64_t NowNs();
  uint64_t CoarseNowNs();
  int64_t Headroom() { return watch_.Headroom(); }

  MemoryWatch& watch() { return watch_; }
  uintptr_t base() const { return base_; }    // of the heap
  void* entries() const { return entries_; }  // of the page map, kPageEntryBytes a page
  void* spans() const { return spans_; }      // one pointer a page
  // Bytes from base() below which every page's entries in both arrays are readable. Grows only.
  size_t mapped_end() const { return mapped_end_.load(std::memory_order_relaxed); }
  const std::atomic<size_t>& atomic_mapped_end() const { return mapped_end_; }
  size_t page_map_bytes() const {
    return mapped_end() / kPageSize * (kPageEntryBytes + sizeof(void*));
  }
  Lock& lock() { return map_lock_; }

 private:
  bool Describe(size_t end) STRATA_EXCLUDES(map_lock_);  // all pages below `end`
  bool GrowPageMap(size_t end) STRATA_REQUIRES(map_lock_);

  uintptr_t base_ = 0;
  char* entries_ = nullptr;
  char* spans_ = nullptr;
  MetadataArena* arena_ = nullptr;
  HugeLength window_{};
  bool hugepages_ = true;
  std::atomic<int> process_madvise_{1};  // 0 once the kernel said it can't
  Lock map_lock_{LockRank::kMetadata};
  std::atomic<size_t> mapped_end_{0};  // written under map_lock_
  MemoryWatch watch_;
};

static_assert(PageKernel<SystemKernel>);

// For a heap: 1 TiB, or four times the memory.
HugeLength DefaultWindow();

// Zeroed memory for metadata, or null. Keeps errno. What is mapped so is remembered, to be
// measured.
void* MapMetadata(size_t bytes);
// Resident bytes of all of it.
size_t ResidentMetadata();

// The system's THP mode, read without allocating.
ThpMode ReadThpMode();
const char* NameOf(ThpMode mode);

// Whether p lies in the heap that libc grows by brk. Reads /proc/self/maps: for error paths.
bool IsInDataSegmentHeap(const void* p);

// Bytes between two addresses that hugepages back, by /proc/self/smaps; 0 if that can't be read.
size_t HugeBackedBytes(uintptr_t start, uintptr_t end);

// What the kernel says of a heap range: bytes resident (by mincore).
size_t ResidentBytes(uintptr_t start, size_t bytes);
// One byte for each native page, bit 0 set if it is resident; returns false if the kernel refuses.
bool ResidentPages(uintptr_t start, size_t native_pages, unsigned char* one_byte_a_page);

}  // namespace strata
