// The chunks of reaps: blocks of the process heap whose pages the page map says are a reap's, and
// the way back from what lies in one. See reaps.h.
#include "base/errno_keeper.h"
#include "malloc/blocks.h"
#include "malloc/checked.h"
#include "malloc/fast_path.h"
#include "malloc/guard.h"
#include "malloc/runtime.h"
#include "malloc/slow_path.h"
#include "regions/reap_lookup.h"
#include "regions/reaps.h"
#include "regions/scopes.h"

namespace strata {

namespace {

// reap: null for memory that is no chunk of one.
Placement PlacementFor(const void* reap) {
  return reap != nullptr ? static_cast<const strata_reap*>(reap)->placement : Placement();
}

void ToggleReapPages(const void* p, size_t size) {
  if (size < kPageSize || CurrentState() != RunState::kReady) return;
  Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  const PageId first(offset >> kPageShift);
  // Not the class that the size has: what is predicted to last has another.
  const Span* span = r.heap.page_map().SpanOf(first);
  const SizeClass c = span->state == SpanState::kLarge ? SizeClass::kNone : span->size_class;
  r.heap.page_map().ToggleDivided({first, PagesCeil(size)}, c);
}

}  // namespace

void* ReapChunks::allocate(size_t size) { return allocate_for(nullptr, size); }

void* ReapChunks::allocate_for(void* reap, size_t size) {
  const OutOfScope out;
  const NoGuards on_its_pages;
  const Placement placement = PlacementFor(reap);
  // A large block in it is one object of the program's, and lies where those do.
  const bool placed = placement != Placement() && size >= kLeastPlaced && size <= kMaxClassSize;
  size_t usable;
  void* p = Checks() ? AllocateRaw(size, 1, &usable)
            : placed ? AllocatePlaced(size, placement)
                     : Allocate(size);
  if (p != nullptr) ToggleReapPages(p, size);
  return p;
}

void* ReapChunks::remap_for(void* reap, void* p, size_t size, size_t wanted) {
  // Reallocate knows no placements; that of large blocks is the program's.
  if ((PlacementFor(reap) != Placement() && wanted <= kMaxClassSize) || Checks()) return nullptr;
  const ErrnoKeeper keep;
  const OutOfScope out;
  ToggleReapPages(p, size);
  void* moved = Reallocate(p, wanted);
  ToggleReapPages(moved == nullptr ? p : moved, moved == nullptr ? size : wanted);
  return moved;
}

size_t ReapChunks::least_for(const void* reap) {
  return PlacementFor(reap) != Placement() ? kLeastPlaced : 0;
}

void* ReapChunks::start_of(const void* p) { return const_cast<void*>(BlockAround(p)); }

void ReapChunks::deallocate(void* p, size_t size) {
  ToggleReapPages(p, size);
  Checks() ? FreeRaw(p) : Free(p);
}

strata_reap* ReapAround(const void* p) {
  const void* chunk = BlockAround(p);
  return chunk == nullptr ? nullptr : ReapAt(chunk);
}

// Also where a large alignment put it on a later page of a large block: its own word there says
// where that begins, and is believed if a reap's chunk does begin there and reach p.
strata_reap* ReapOfBlock(void* p) {
  if (CurrentState() != RunState::kReady || reinterpret_cast<uintptr_t>(p) % 16 != 0)
    return nullptr;
  if (strata_reap* reap = ReapAround(p)) return reap;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end() || offset < kPageSize) return nullptr;
  if (r.heap.page_map().ClassOf(PageId(offset >> kPageShift)) != SizeClass::kNone ||
      r.heap.large().At(p) != nullptr) {
    return nullptr;
  }
  auto* block = layers::TaggedBlock::Of(p);
  if (!block->apart()) return nullptr;
  const size_t into = block->apart_offset();
  const void* start = static_cast<char*>(p) - into;
  if (into > offset || BlockAround(start) != start) return nullptr;
  const Span* span = r.heap.page_map().SpanOf(PageId((offset - into) >> kPageShift));
  return PageId(offset >> kPageShift) < span->range().end() ? ReapAround(start) : nullptr;
}

}  // namespace strata
