// mmap, madvise and their failures, for the heap's window. See system_kernel.h.
#include "os/system_kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "base/keyed_random.h"
#include "os/address_limit.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "os/move_conditions.h"
#include "os/randomization.h"
#include "os/resident.h"
#include "strata/raw_io.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace strata {
namespace {

constexpr int kPidfdSelf = -10000;  // PIDFD_SELF_THREAD, Linux 6.14

struct Place {
  uintptr_t start = 0;
  size_t bytes = 0;
  bool Meets(const Place& o) const { return start < o.start + o.bytes && o.start < start + bytes; }
};

// Anywhere in steps of `align`, clear of the others.
Place RandomPlace(KeyedRandom& random, uintptr_t limit, size_t bytes, size_t align,
                  const Place& other, const Place& third) {
  for (;;) {
    const size_t steps = (HighestOf(limit) - LowestOf(limit) - bytes) / align;
    const Place place{LowestOf(limit) + random.Next() % steps * align, bytes};
    if (!place.Meets(other) && !place.Meets(third)) return place;
  }
}

KeyedRandom ProcessRandom() {
  uint64_t key[2] = {0, reinterpret_cast<uintptr_t>(&key)};
  const void* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  if (bytes != nullptr) memcpy(key, bytes, sizeof(key));
  return {key[0], key[1]};
}

MapResult MapAt(uintptr_t at, size_t bytes) {
  void* wanted = reinterpret_cast<void*>(at);
  void* got = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == wanted) return MapResult::kMapped;
  if (got != MAP_FAILED) {  // a kernel before 4.17 takes the address as a hint
    munmap(got, bytes);
    return MapResult::kOccupied;
  }
  return errno == EEXIST ? MapResult::kOccupied : MapResult::kNoMemory;
}

bool Advise(void* p, size_t bytes, int advice) {
  return MayAdvise() && madvise(p, bytes, advice) == 0;
}

// Where a call failed after it had unmapped the range: whoever took the memory may let go of it
// soon. kNoMemory: the range is a hole.
MapResult MapAgain(uintptr_t at, size_t bytes) {
  constexpr int kAgain = 100;
  MapResult result = MapAt(at, bytes);
  for (int i = 0; i < kAgain && result == MapResult::kNoMemory; ++i) result = MapAt(at, bytes);
  return result;
}

// Whether nothing is mapped at a page. Under a filter nobody is asked: a piece of the heap never
// replaces somebody else's mapping, and is put elsewhere.
bool IsVacant(uintptr_t at) {
  if (!MayCallAnything()) return true;
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(at), kNativePageSize, &resident) != 0 && errno == ENOMEM;
}
constexpr int kTries = 8;

// A call to the kernel in any case: without the frames of libc and the vDSO, below which a deep
// stack is near its bound.
uint64_t ReadCpu(clockid_t clock) {
  timespec now{};
  raw::Call(SYS_clock_gettime, clock, raw::Word(&now));
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

STRATA_ONCE void SystemKernel::Init(HugePages window, HugePageAdvice advice, MetadataArena& arena,
                                    const BytesAPage& side, uintptr_t address_limit) {
  arena_ = &arena;
  const ErrnoKeeper keep;
  hugepages_ = advice == HugePageAdvice::kWherePossible &&
               KernelPageBytes() == kNativePageSize;  // else a hugepage is 32 or 512 MiB
  const HugePages most(MostOf(address_limit) >> kHugePageShift);
  window_ = std::min(window, most);
  bytes_a_page_ = side;
  // Each by itself, so that the address of one tells nothing of the others'.
  KeyedRandom random = ProcessRandom();
  secret_ = random.Next();
  if (!AddressesAreRandom()) random = KeyedRandom(0, 0);
  sampling_seed_ = random.Next();
  const Place heap = RandomPlace(random, address_limit, BytesOf(window_), kHugePageSize, {}, {});
  base_ = heap.start;
  for (int tries = 0; tries < kTries; ++tries) {
    bool vacant = true;
    Place other;
    for (size_t i = 0; i < kSideArrays; ++i) {
      if (side[i] == 0) continue;
      const size_t bytes = RoundUp(PagesOf(window_).raw() * side[i], KernelPageBytes());
      other = RandomPlace(random, address_limit, bytes, KernelPageBytes(), heap, other);
      side_[i] = other.start;
      vacant = vacant && IsVacant(other.start);
    }
    // Somebody else's mapping would stop the heap's growth for good.
    if (vacant) return;
  }
}

// The side arrays are mapped up to the heap's new end, in whole pages of the kernel.
bool SystemKernel::GrowSideArrays(size_t end) {
  const size_t old_end = mapped_end();
  const auto place_of = [&](size_t i, size_t heap_end) {
    return side_[i] + RoundUp(heap_end / kPageSize * bytes_a_page_[i], KernelPageBytes());
  };
  for (size_t i = 0; i < kSideArrays; ++i) {
    const uintptr_t from = place_of(i, old_end), to = place_of(i, end);
    if (from == to) continue;
    if (MapAt(from, to - from) == MapResult::kMapped) {
      Advise(reinterpret_cast<void*>(from), to - from, MADV_NOHUGEPAGE);
      continue;
    }
    // Taken back, so that a later try finds the arrays in step.
    while (i-- > 0) {
      const uintptr_t start = place_of(i, old_end), bytes = place_of(i, end) - start;
      if (bytes != 0) munmap(reinterpret_cast<void*>(start), bytes);
    }
    return false;
  }
  // release: the arrays are readable before a free takes an address below the new end for ours.
  mapped_end_.store(end, std::memory_order_release);
  return true;
}

size_t SystemKernel::ResidentSideArrays() const {
  size_t bytes = 0;
  for (size_t i = 0; i < kSideArrays; ++i) bytes += ResidentBytes(side_[i], side_array_bytes(i));
  return bytes;
}

bool SystemKernel::Describe(size_t end) {
  LockHolder hold(map_lock_);
  return end <= mapped_end() || GrowSideArrays(end);
}

MapResult SystemKernel::Map(HugeRange range) {
  const ErrnoKeeper keep;
  const uintptr_t at = base_ + OffsetOf(range.first);
  // Most likely to be refused, so first: where mlockall counts each mapping against a small limit,
  // the caller asks for less, which needs fewer records.
  const MapResult result = MapAt(at, BytesOf(range.length));
  if (result != MapResult::kMapped) return result;
  const size_t end = OffsetOf(range.end());
  if (!arena_->EnsureHeapTotal(MetadataFor(end)) || !Describe(end)) {
    munmap(reinterpret_cast<void*>(at), BytesOf(range.length));
    return MapResult::kNoMemory;
  }
  // Under THP mode `always` the kernel would give them unasked.
  if (!hugepages_) Advise(reinterpret_cast<void*>(at), BytesOf(range.length), MADV_NOHUGEPAGE);
  return MapResult::kMapped;
}

void SystemKernel::NoteLost(uintptr_t at, size_t bytes) {
  LockHolder hold(map_lock_);
  const size_t n = lost_n_.load(std::memory_order_relaxed);
  STRATA_CHECK(n < kMostLost);
  lost_[n] = {HugePageId((at - base_) >> kHugePageShift), HugePages(bytes >> kHugePageShift)};
  lost_n_.store(n + 1, std::memory_order_relaxed);
}

bool SystemKernel::IsLost(HugeRange range) {
  if (STRATA_LIKELY(lost_n_.load(std::memory_order_relaxed) == 0)) return false;
  LockHolder hold(map_lock_);
  for (const HugeRange& r : lost_) {
    if (r.first < range.end() && range.first < r.end()) return true;
  }
  return false;
}

// In a sandbox of the program's own making only mmap is sure to be allowed. A new mapping in the
// place of the old one costs a VMA, so only whole hugepages go back.
bool SystemKernel::GiveBack(NativeRange range) {
  const uintptr_t at = base_ + range.offset;
  void* const p = reinterpret_cast<void*>(at);
  if (MayAdvise()) return madvise(p, range.bytes, MADV_DONTNEED) == 0;
  if (((at | range.bytes) & (kHugePageSize - 1)) != 0) return false;
  // A kernel that loses ranges is asked no more: there is room for few in the list.
  if (lost_n_.load(std::memory_order_relaxed) >= kMostLost / 2) return false;
  if (mmap(p, range.bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == p)
    return true;
  const MapResult again = MapAgain(at, range.bytes);
  if (again == MapResult::kNoMemory) NoteLost(at, range.bytes);
  return again == MapResult::kMapped;
}

bool SystemKernel::Release(const NativeRange* ranges, size_t n) {
  const ErrnoKeeper keep;
  bool all = true;
  while (n != 0) {
    if (n > 1 && MayCallAnything() && process_madvise_.load(std::memory_order_relaxed) != 0) {
      constexpr size_t kAtOnce = 256;
      iovec vector[kAtOnce];
      const size_t count = n < kAtOnce ? n : kAtOnce;
      size_t bytes = 0;
      for (size_t i = 0; i < count; ++i) {
        vector[i] = {reinterpret_cast<void*>(base_ + ranges[i].offset), ranges[i].bytes};
        bytes += ranges[i].bytes;
      }
      const long done = syscall(SYS_process_madvise, kPidfdSelf, vector, count, MADV_DONTNEED, 0);
      if (done >= 0 && static_cast<size_t>(done) == bytes) {
        ranges += count;
        n -= count;
        continue;
      }
      if (done < 0 && (errno == ENOSYS || errno == EBADF || errno == EINVAL || errno == EPERM)) {
        process_madvise_.store(0,
                               std::memory_order_relaxed);  // an older kernel, or a seccomp filter
      }
    }
    // One by one: an older kernel, or part of the batch was refused (giving back twice does no
    // harm).
    all &= GiveBack(*ranges);
    ++ranges;
    --n;
  }
  return all;
}

void SystemKernel::AdviseHuge(HugeRange range) {
  if (!hugepages_) return;
  const ErrnoKeeper keep;
  Advise(reinterpret_cast<void*>(base_ + OffsetOf(range.first)), BytesOf(range.length),
         MADV_HUGEPAGE);
}

void SystemKernel::AdviseNoHuge(HugeRange range) {
  const ErrnoKeeper keep;
  Advise(reinterpret_cast<void*>(base_ + OffsetOf(range.first)), BytesOf(range.length),
         MADV_NOHUGEPAGE);
}

bool SystemKernel::SplitHugePage(HugePageId, NativeRange used) {
  const ErrnoKeeper keep;
  // MADV_COLD on part of a hugepage splits it, which frees the parts given back before.
  const size_t page = KernelPageBytes();
  return Advise(reinterpret_cast<void*>(base_ + RoundDown(used.offset, page)), page, MADV_COLD);
}

bool SystemKernel::Collapse(HugeRange range) {
  if (!hugepages_) return false;
  const ErrnoKeeper keep;
  return Advise(reinterpret_cast<void*>(base_ + OffsetOf(range.first)), BytesOf(range.length),
                MADV_COLLAPSE);
}

// Of nothing: only whether the kernel knows the advice (Linux 6.1) is looked at.
bool SystemKernel::CanCollapse() {
  const ErrnoKeeper keep;
  return hugepages_ && MayCallAnything() &&
         Advise(reinterpret_cast<void*>(base_), 0, MADV_COLLAPSE);
}

bool SystemKernel::Populate(HugeRange range) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
  const ErrnoKeeper keep;
  return Advise(reinterpret_cast<void*>(base_ + OffsetOf(range.first)), BytesOf(range.length),
                kPopulateWrite);
}

uint64_t SystemKernel::Touch(size_t native) {
  if (!MayCallAnything()) return 0;  // asking for the time is a call
  const OwnCpu begin = StartOwnCpu();
  *reinterpret_cast<volatile char*>(base_ + (native << kNativePageShift)) = 0;
  return OwnCpuSince(begin);
}

HugePages SystemKernel::Move(HugeRange from, HugePageId to) {
  const ErrnoKeeper keep;
  FindInheritedConfinement();
  if (!MayCallAnything() || !can_move_.load(std::memory_order_relaxed) || !MayMoveMemory())
    return {};
  const uintptr_t source = base_ + OffsetOf(from.first), target = base_ + OffsetOf(to);
  // So that what is there after a failure was moved there.
  if (!Advise(reinterpret_cast<void*>(target), BytesOf(from.length), MADV_DONTNEED)) return {};
  HugePages moved;
  // Of a longer range some kernels move a part before they fail.
  while (moved < from.length && MayCallAnything() &&
         MoveOne(source + BytesOf(moved), target + BytesOf(moved)))
    moved += HugePages(1);
  return moved;
}

// Leaves the source mapped, without pages.
bool SystemKernel::MoveOne(uintptr_t from, uintptr_t to) {
  void* const target = reinterpret_cast<void*>(to);
  if (mremap(reinterpret_cast<void*>(from), kHugePageSize, kHugePageSize,
             MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target) == target)
    return true;
  // Before Linux 5.7, and in gVisor: not asked again.
  if (errno == EINVAL || errno == ENOSYS) can_move_.store(false, std::memory_order_relaxed);
  // Most failures come after the kernel has unmapped the target.
  const MapResult again = MapAgain(to, kHugePageSize);
  STRATA_CHECK(again != MapResult::kOccupied || ResidentBytes(to, kHugePageSize) == 0);
  if (again == MapResult::kMapped) AdviseAnew(to);
  if (again != MapResult::kNoMemory) return false;
  // To move all of it takes no more memory. Then the hole is where nobody's memory was.
  STRATA_CHECK(mremap(reinterpret_cast<void*>(from), kHugePageSize, kHugePageSize,
                      MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
  if (MapAgain(from, kHugePageSize) == MapResult::kMapped) {
    AdviseAnew(from);
  } else {
    NoteLost(from, kHugePageSize);
  }
  return true;
}

void SystemKernel::AdviseAnew(uintptr_t at) {
  Advise(reinterpret_cast<void*>(at), kHugePageSize, hugepages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

uint64_t SystemKernel::NowNs() { return ReadClock(CLOCK_MONOTONIC); }

SystemKernel::OwnCpu SystemKernel::StartOwnCpu() {
  if (MayCallAnything()) return {CLOCK_THREAD_CPUTIME_ID, ReadCpu(CLOCK_THREAD_CPUTIME_ID)};
  return {CLOCK_MONOTONIC, ReadClock(CLOCK_MONOTONIC)};
}

// A sandbox may have begun meanwhile.
uint64_t SystemKernel::OwnCpuSince(OwnCpu start) {
  uint64_t now_ns = 0;
  if (start.clock == CLOCK_MONOTONIC) {
    now_ns = ReadClock(CLOCK_MONOTONIC);
  } else if (MayCallAnything()) {
    now_ns = ReadCpu(CLOCK_THREAD_CPUTIME_ID);
  } else {
    return 0;
  }
  return std::max<uint64_t>(now_ns - start.begin_ns, 1);
}

bool SystemKernel::MayReadProcessCpu() { return MayCallAnything(); }

uint64_t SystemKernel::ProcessCpuNs() { return ReadCpu(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t SystemKernel::CoarseNowNs() { return ReadClock(CLOCK_MONOTONIC_COARSE); }

bool SystemKernel::Resident(HugePageId page, unsigned char* one_byte_a_native_page) {
  return MayCallAnything() &&
         ResidentPages(base_ + OffsetOf(page), kNativePerHugePage, one_byte_a_native_page);
}

}  // namespace strata
