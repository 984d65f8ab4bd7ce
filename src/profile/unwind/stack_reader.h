// Reads words of the stack without a chance to fault, whatever address a wrong table leads to: each
// page is asked of the kernel before its first word is read, and the pages at hand are remembered
// from one walk of a thread to the next, so that a warm walk makes no system call. Sits in
// profile/unwind.
//
// What is remembered is one range around the stack pointer. The pages of the stack a thread runs on
// can't go away under it; on another stack (fiber, alternate signal stack) the stack pointer lies
// outside of the range, which then starts anew. Only pages that walks with good tables reached are
// kept for the next walk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "base/check.h"
#include "base/units.h"
#include "os/readable.h"

// A walk reads what the compiler keeps on the stack for itself, which sanitizers forbid.
#define STRATA_READS_STACK __attribute__((no_sanitize("address", "thread", "undefined")))

namespace strata {

// What a thread remembers, in one word, so that a signal handler that walks can't tear it.
struct KnownPages {
  static constexpr unsigned kCountBits = 28;
  uint64_t word = 0;

  static KnownPages Of(uintptr_t begin, uintptr_t end) {
    const uint64_t count = (end - begin) >> kNativePageShift;
    return {(begin >> kNativePageShift) << kCountBits | (count & ((1u << kCountBits) - 1))};
  }
  uintptr_t begin() const { return (word >> kCountBits) << kNativePageShift; }
  uintptr_t end() const {
    return begin() + ((word & ((1u << kCountBits) - 1)) << kNativePageShift);
  }
};

class StackReader {
 public:
  using Probe = bool (*)(uintptr_t address);

  STRATA_ALWAYS_INLINE StackReader(KnownPages known, uintptr_t sp, Probe probe = IsReadable)
      : begin_(known.begin()), end_(known.end()), probe_(probe) {
    if (STRATA_UNLIKELY(sp - begin_ >= end_ - begin_)) StartAt(sp);
    good_end_ = end_;
  }

  // The word at an address; false if it can't be read.
  STRATA_ALWAYS_INLINE STRATA_READS_STACK bool Load(uintptr_t address, uintptr_t* word) {
    if (STRATA_UNLIKELY((address & 7) != 0)) return false;
    if (STRATA_UNLIKELY(address - begin_ >= end_ - begin_) && !Reach(address)) return false;
    *word = *reinterpret_cast<const volatile uintptr_t*>(address);
    return true;
  }

  // What was read so far came from good tables.
  STRATA_ALWAYS_INLINE void Confirm() { good_end_ = end_; }

  // For the thread's next walk.
  KnownPages known() const { return moved_ ? first_ : KnownPages::Of(begin_, good_end_); }

 private:
  static constexpr uintptr_t kAddressEnd = uintptr_t{1} << arch::kAddressBits;
  static constexpr uintptr_t kReach = 16 * kNativePageSize;  // asked page by page up to here
  static constexpr int kMaxProbes = 256;

  bool Ask(uintptr_t address) { return probes_-- > 0 && probe_(address); }

  // The range holds no `sp`: extend it down if the stack has grown, else begin anew with the page
  // of `sp`, on which the caller runs.
  STRATA_NOINLINE void StartAt(uintptr_t sp) {
    const uintptr_t page = RoundDown(sp, kNativePageSize);
    if (begin_ > page && begin_ - page <= kReach) {
      uintptr_t at = page + kNativePageSize;
      while (at < begin_ && Ask(at)) at += kNativePageSize;
      if (at >= begin_) {
        begin_ = page;
        return;
      }
    }
    begin_ = page;
    end_ = page + kNativePageSize;
  }

  // Makes the range cover an address, or refuses. One far away begins a range of its own, as when a
  // signal handler on an alternate stack returns to the thread's: what lies between is not asked.
  STRATA_NOINLINE bool Reach(uintptr_t address) {
    if (address >= kAddressEnd || address < kNativePageSize) return false;
    const uintptr_t page = RoundDown(address, kNativePageSize);
    if (page >= end_ && page - end_ < kReach) {
      while (end_ <= page) {
        if (!Ask(end_)) return false;
        end_ += kNativePageSize;
      }
      return true;
    }
    if (!Ask(page)) return false;
    if (!moved_) first_ = KnownPages::Of(begin_, good_end_);
    moved_ = true;
    begin_ = page;
    end_ = page + kNativePageSize;
    return true;
  }

  uintptr_t begin_;
  uintptr_t end_;
  uintptr_t good_end_ = 0;
  Probe probe_;
  int probes_ = kMaxProbes;
  bool moved_ = false;
  KnownPages first_;
};

}  // namespace strata
