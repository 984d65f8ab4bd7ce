// The real kernel behind os/page_kernel.h: a window of address space in which the heap's memory is
// mapped piece by piece. The window itself is not reserved, so that RLIMIT_AS, RLIMIT_DATA and
// strict overcommit count only what the heap maps, at whatever time they are set; mappings never
// replace someone else's. Side arrays with something for each page of it, which grow with it, lie
// elsewhere, each at a place of its own. Sits in os.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "os/address_limit.h"
#include "os/memory_watch.h"
#include "os/page_bytes.h"
#include "os/page_kernel.h"

namespace strata {

// What the kernel is told of the heap's memory.
enum class HugePageAdvice : uint8_t { kNever, kWherePossible };

class SystemKernel {
 public:
  // Bytes that each side array holds for a page of the heap; 0 where there is none.
  static constexpr size_t kSideArrays = 2;
  using BytesAPage = std::array<size_t, kSideArrays>;

  // Picks the window; maps nothing. `arena`: where the records for what will be mapped come from.
  // The window is smaller than asked for where there are few addresses.
  void Init(HugePages window, HugePageAdvice advice, MetadataArena& arena,
            const BytesAPage& side = {}, uintptr_t address_limit = AddressLimit());

  HugePages window() const { return window_; }
  HugePages past_gibibyte() const { return HugePages(base_ % (size_t{1} << 30) >> kHugePageShift); }
  MapResult Map(HugeRange range);
  bool Release(const NativeRange* ranges, size_t n);
  void AdviseHuge(HugeRange range);
  void AdviseNoHuge(HugeRange range);
  bool SplitHugePage(HugePageId page, NativeRange used);
  bool Collapse(HugeRange range);
  bool Populate(HugeRange range);
  uint64_t Touch(size_t native);
  HugePages Move(HugeRange from, HugePageId to);
  bool IsLost(HugeRange range);
  bool CanCollapse();
  bool Resident(HugePageId page, unsigned char* one_byte_a_native_page);
  size_t NonZero(HugePageId page, const unsigned char* resident, size_t most);
  bool FreesZeroPages();
  size_t page_bytes() const { return KernelPageBytes(); }
  uint64_t NowNs();
  struct OwnCpu {
    clockid_t clock;
    uint64_t begin_ns;
  };
  OwnCpu StartOwnCpu();
  uint64_t OwnCpuSince(OwnCpu start);
  uint64_t CoarseNowNs();
  bool MayReadProcessCpu();  // a call to the kernel, unlike the clocks
  uint64_t ProcessCpuNs();
  int64_t Headroom() { return watch_.Headroom(); }

  MemoryWatch& watch() { return watch_; }
  uintptr_t base() const { return base_; }  // of the heap
  // Random, and tells nothing of the addresses.
  uint64_t secret() const { return secret_; }
  // Likewise, but the same each time where addresses repeat: samples move the blocks after them.
  uint64_t sampling_seed() const { return sampling_seed_; }
  void* side_array(size_t i) const { return reinterpret_cast<void*>(side_[i]); }
  // Bytes from base() below which every page's part of each side array is readable. Grows only.
  size_t mapped_end() const { return mapped_end_.load(std::memory_order_relaxed); }
  const std::atomic<size_t>& atomic_mapped_end() const { return mapped_end_; }
  // Of the side arrays: what is mapped of one, and what is resident of all.
  size_t side_array_bytes(size_t i) const {
    return RoundUp(mapped_end() / kPageSize * bytes_a_page_[i], KernelPageBytes());
  }
  size_t ResidentSideArrays() const;
  Lock& lock() { return map_lock_; }

 private:
  bool GiveBack(NativeRange range);
  bool MoveOne(uintptr_t from, uintptr_t to);
  void AdviseAnew(uintptr_t at);
  void NoteLost(uintptr_t at, size_t bytes);
  bool Describe(size_t end) STRATA_EXCLUDES(map_lock_);  // all pages below `end`
  bool GrowSideArrays(size_t end) STRATA_REQUIRES(map_lock_);

  uintptr_t base_ = 0;
  uint64_t secret_ = 0;
  uint64_t sampling_seed_ = 0;
  std::array<uintptr_t, kSideArrays> side_{};
  BytesAPage bytes_a_page_{};
  MetadataArena* arena_ = nullptr;
  HugePages window_{};
  bool hugepages_ = true;
  std::atomic<int> process_madvise_{1};  // 0 once the kernel said it can't
  std::atomic<bool> can_move_{true};     // likewise
  Lock map_lock_{LockRank::kMetadata};
  std::atomic<size_t> mapped_end_{0};  // written under map_lock_
  static constexpr size_t kMostLost = 16;
  std::array<HugeRange, kMostLost> lost_{};  // under map_lock_
  std::atomic<size_t> lost_n_{0};
  MemoryWatch watch_;
};

static_assert(PageKernel<SystemKernel>);

}  // namespace strata
