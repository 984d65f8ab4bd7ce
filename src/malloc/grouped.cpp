// See grouped.h.
#include "malloc/grouped.h"

#include <errno.h>

#include "malloc/fast_path.h"
#include "malloc/region_calls.h"
#include "malloc/sampling.h"
#include "malloc/slow_path.h"

namespace strata {

namespace grouped_internal {
constinit std::atomic<uint32_t> g_contexts{0};
}  // namespace grouped_internal

namespace {

// The place of the call, as the predictions know it: its return address and the height of the
// stack, which stands for the frames further out, and the size class. To walk those frames would
// cost more than the allocation, and could only join places that the remainder joins anyway.
ObjectGroup GroupOfContext(AllocationSite site, SizeClass c) {
  return ContextGroup((Raw(site.KeyOf(c)) >> 32) * Contexts() >> 32);
}

}  // namespace

void SetContexts(uint32_t contexts) {
  grouped_internal::g_contexts.store(contexts, std::memory_order_relaxed);
}

void* TakeInGroup(size_t size, SizeClass c, ObjectGroup group) {
  const int saved = errno;
  Runtime& r = TheRuntime();
  void* p = r.heap.central().groups().Take(c, group);
  if (STRATA_UNLIKELY(p == nullptr)) return nullptr;
  WipeMark(p);
  NoteRequested(r, c, size);
  TendAfterGrowth();
  errno = saved;
  return p;
}

void* AllocateInGroup(size_t size, SizeClass c, ObjectGroup group) {
  const bool sampled = CountBytes(size);
  void* p = TakeInGroup(size, c, group);
  // Out of the group where memory is short: there what lies free in caches can be had.
  if (STRATA_UNLIKELY(p == nullptr)) p = AllocateSlowOf(size, c);
  if (STRATA_LIKELY(!sampled) || p == nullptr) return p;
  return SampleTaken(TheRuntime(), p, size);
}

void* AllocateInContext(AllocationSite site, size_t size) {
  const bool ready = EnsureStarted() == RunState::kReady;
  if (STRATA_UNLIKELY(!ready)) return AllocateSlow(size);
  if (InScope()) return AllocateInScope(size);
  if (size <= kMaxClassSize) {
    const SizeClass c = ClassOfSize(size);
    return AllocateInGroup(size, c, GroupOfContext(site, c));
  }
  const bool sampled = CountBytesSlow(size);
  void* p = AllocateSlow(size);
  if (STRATA_LIKELY(!sampled) || p == nullptr) return p;
  return SampleTaken(TheRuntime(), p, size, site);
}

ObjectGroup GroupOfObject(const Runtime& r, const void* p) {
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return ObjectGroup::kNone;
  const PageId page(offset >> kPageShift);
  const SizeClass c = r.heap.page_map().ClassOf(page);
  if (c == SizeClass::kNone || c == kDividedPage) return ObjectGroup::kNone;
  return r.heap.page_map().SpanOf(page)->group;
}

bool GiveToGroup(Runtime& r, void* p) {
  const ObjectGroup group = GroupOfObject(r, p);
  if (group == ObjectGroup::kNone) return false;
  const PageId page((reinterpret_cast<uintptr_t>(p) - r.kernel.base()) >> kPageShift);
  r.heap.central().groups().Of(r.heap.page_map().ClassOf(page), group).Give(&p, 1);
  return true;
}

}  // namespace strata
