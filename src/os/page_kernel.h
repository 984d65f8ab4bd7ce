// What the page heap asks of the outside world, as a concept: the kernel's effects on the heap's
// address window, and time. Sits at the bottom of os; the real one is os/system_kernel.h, the fake
// one for tests is os/fake_kernel.h. All positions are relative to the window, so nothing here
// needs an address.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace strata {

// A range of native pages, in bytes from the window's start; both fields are multiples of 4 KiB,
// and of the kernel's pages where they may be larger.
struct NativeRange {
  size_t offset;
  size_t bytes;
};

enum class MapResult : uint8_t {
  kMapped,    // usable and zero
  kNoMemory,  // the kernel or the heap limit refused: asking for less may work
  kOccupied,  // someone else's mapping lies in the range: try further up
};

// Thread-safe; every call may be made with no lock held. None allocates, none changes errno.
template <class K>
concept PageKernel = requires(K& k, HugeRange huge, HugePageId page, NativeRange native,
                              const NativeRange* list, size_t n, unsigned char* bytes) {
  { k.window() } -> std::same_as<HugePages>;         // size of the address window
  { k.past_gibibyte() } -> std::same_as<HugePages>;  // from the last multiple to its start
  { k.Map(huge) } -> std::same_as<MapResult>;  // makes a never-mapped range readable and writable
  {
    k.Release(list, n)
  } -> std::same_as<bool>;  // gives the contents back; the pages read as zero after; false: refused
  { k.AdviseHuge(huge) } -> std::same_as<void>;    // ask for hugepages on faults from now on
  { k.AdviseNoHuge(huge) } -> std::same_as<void>;  // and not to rebuild them
  // After part of a hugepage was released: makes the kernel split it, or the released part is not
  // freed (platform trap: RSS falls, memory does not). `used` is one native page of it that is
  // still in use. False: refused; true does not promise that it was split.
  { k.SplitHugePage(page, native) } -> std::same_as<bool>;
  // Rebuilds hugepages now; false: not all of them. Slow, and each call waits for all CPUs once, so
  // that many in one call cost much less; background only.
  { k.Collapse(huge) } -> std::same_as<bool>;
  // Backs a range with hugepages before it is touched; false: refused, wholly or in part.
  { k.Populate(huge) } -> std::same_as<bool>;
  // Writes a zero to the start of a native page, which reads as zero and is the caller's. Says what
  // that took of CPU time; 0: it was not done, as not even the time may be asked for.
  { k.Touch(n) } -> std::same_as<uint64_t>;
  // Moves what lies in a range to other hugepages, by page tables; whatever they held is lost. Says
  // how many it moved, from the first on; those read as zero afterwards.
  { k.Move(huge, page) } -> std::same_as<HugePages>;
  // Whether some of a range is not mapped any more: a call that gave back or moved took it out, and
  // the kernel refused to map it again. It may be nobody's memory from then on.
  { k.IsLost(huge) } -> std::same_as<bool>;
  { k.CanCollapse() } -> std::same_as<bool>;  // whether it knows such a call
  // Which native pages of a hugepage have memory behind them now: bit 0 of a byte for each. Not
  // those swapped out. False: not known, as the kernel may not be asked.
  { k.Resident(page, bytes) } -> std::same_as<bool>;
  // Native pages of a hugepage that hold anything but zeros, counted up to one more than n; looks
  // only at those that Resident found. SIZE_MAX: not known, as the kernel may not be asked or the
  // program keeps some from being read.
  { k.NonZero(page, bytes, n) } -> std::same_as<size_t>;
  // Whether a hugepage that is split gives those back that hold only zeros.
  { k.FreesZeroPages() } -> std::same_as<bool>;
  { k.page_bytes() } -> std::same_as<size_t>;  // of its pages: Release takes whole ones
  { k.NowNs() } -> std::same_as<uint64_t>;     // monotonic
  // The CPU time that the calling thread took since StartOwnCpu: what it waited for a CPU is not in
  // it, but what a hypervisor spends on a page that it took back is. Where asking for it could be
  // forbidden it is the time that passed. 0: not known.
  { k.OwnCpuSince(k.StartOwnCpu()) } -> std::same_as<uint64_t>;
  { k.CoarseNowNs() } -> std::same_as<uint64_t>;  // the same, some milliseconds late and cheap
  // Bytes that the process may still take before its soft limit; negative when over it, INT64_MAX
  // where there is none. Reads files: not with a lock held.
  { k.Headroom() } -> std::same_as<int64_t>;
};

}  // namespace strata
