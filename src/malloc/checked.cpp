// The calls of a debugging run. See checked.h.
#include "malloc/checked.h"

#include <errno.h>
#include <string.h>

#include "base/errno_keeper.h"
#include "heaps/checked_blocks.h"
#include "malloc/bad_free.h"
#include "malloc/error_report.h"
#include "malloc/guard.h"
#include "malloc/region_calls.h"
#include "malloc/slow_path.h"

namespace strata {

namespace checked_internal {
constinit bool g_checks = false;
}  // namespace checked_internal

namespace {

alignas(CheckedBlocks) unsigned char g_storage[sizeof(CheckedBlocks)];

CheckedBlocks& Blocks() { return *reinterpret_cast<CheckedBlocks*>(g_storage); }

MemoryErrorKind KindOf(CheckFinding finding) {
  switch (finding) {
    case CheckFinding::kFreedBefore:
      return MemoryErrorKind::kDoubleFree;
    case CheckFinding::kBeyondEnd:
      return MemoryErrorKind::kOverflow;
    case CheckFinding::kBeforeStart:
      return MemoryErrorKind::kUnderflow;
    case CheckFinding::kAfterFree:
      return MemoryErrorKind::kUseAfterFree;
    case CheckFinding::kUnknown:
    case CheckFinding::kNone:
      break;
  }
  return MemoryErrorKind::kInvalidFree;
}

// `done`: what the thread does to the block now.
void Report(const CheckVerdict& v, const BlockEvent* done) {
  if (v.finding == CheckFinding::kNone) return;
  const CheckedBlock* b = v.block;
  const bool at_free =
      v.finding == CheckFinding::kUnknown || v.finding == CheckFinding::kFreedBefore;
  ReportMemoryError({KindOf(v.finding), at_free ? Noticed::kFree : Noticed::kLater,
                     reinterpret_cast<uintptr_t>(v.at), reinterpret_cast<uintptr_t>(b->user),
                     b->size, &b->allocated, b->freed_once ? &b->freed : nullptr,
                     at_free ? done : nullptr});
}

// No block begins there: a reap's, inside of one, or nothing of ours.
void FreeStranger(const CheckVerdict& v, void* p, const BlockEvent& now) {
  if (const CheckedBlock* around = Blocks().Around(p)) {
    Report({CheckFinding::kUnknown, v.at, around}, &now);
  } else if (!FreeReapBlock(p)) {
    HandleBadFree(BadFree::kNotLive, p);
  }
}

}  // namespace

void StartChecks(const Options& options) {
  if (!options.check) return;
  ::new (g_storage) CheckedBlocks(TheRuntime().sample_arena);
  checked_internal::g_checks = true;
}

void* AllocateChecked(size_t size, size_t align) {
  if (size > kMaxRequest - (size_t{2} << 30)) return OutOfMemory();
  const int saved = errno;
  if (void* p = TakeGuarded(TheRuntime(), size, align, StandsFor::kItself)) return p;
  KeepStacksWhole();
  const size_t wanted = CheckedBlocks::RawSize(size, align);
  size_t usable = 0;
  void* raw = AllocateRaw(wanted, align, &usable);
  if (raw == nullptr) return OutOfMemory();
  void* p = Blocks().Add(raw, usable, size, align, CurrentEvent());
  if (p == nullptr) {
    FreeRaw(raw);
    return OutOfMemory();
  }
  errno = saved;
  return p;
}

void FreeChecks(void* p) {
  const ErrnoKeeper keep;
  const BlockEvent now = CurrentEvent();
  const CheckVerdict v = Blocks().Free(p, now);
  if (v.finding == CheckFinding::kUnknown) return FreeStranger(v, p, now);
  Report(v, &now);
  for (;;) {
    CheckVerdict old;
    void* raw = Blocks().TakeOld(old);
    Report(old, nullptr);
    if (raw == nullptr) return;
    FreeRaw(raw);
  }
}

size_t SizeChecked(void* p) {
  const CheckedBlock* b = Blocks().FindLive(p);
  return b == nullptr ? 0 : b->size;
}

void* ReallocateChecked(void* p, size_t size) {
  const CheckedBlock* b = Blocks().FindLive(p);
  if (b == nullptr) {
    const Runtime& r = TheRuntime();
    if (reinterpret_cast<uintptr_t>(p) - r.kernel.base() >= r.kernel.mapped_end()) {
      HandleBadFree(BadFree::kForeign, p);
      return OutOfMemory();
    }
    if (strata_reap* reap = ReapOfBlock(p)) return ReallocateInReap(reap, p, size);
    FreeChecks(p);  // says what is wrong with it
    return OutOfMemory();
  }
  if (size == 0) {
    FreeChecks(p);
    return nullptr;
  }
  void* to = InScope() ? AllocateInScope(size) : AllocateChecked(size, 1);
  if (to == nullptr) return nullptr;
  memcpy(to, p, size < b->size ? size : b->size);
  FreeChecks(p);
  return to;
}

void CheckAllAtExit() {
  if (Checks()) Report(Blocks().CheckAll(), nullptr);
}

Lock* LockOfChecks() { return Checks() ? &Blocks().lock() : nullptr; }

}  // namespace strata
