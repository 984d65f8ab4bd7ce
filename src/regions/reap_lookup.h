// Which reap a block is of: the page map says which pages are a reap's chunk, and the chunk says
// whose. In line, since a lookup is most of what a free in a reap of many chunks costs. Inside of
// reaps.cpp and reap_chunks.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "malloc/region_calls.h"
#include "malloc/runtime.h"
#include "regions/reaps.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// The offset's page is kDividedPage. The block may begin behind the offset: some begin a little
// behind the start of a page, and their span holds no other then.
STRATA_ALWAYS_INLINE const void* BlockInDivided(const Runtime& r, size_t offset) {
  const Span* span = r.heap.page_map().SpanOf(PageId(offset >> kPageShift));
  const ClassInfo& info = InfoOf(span->size_class);  // of a large block all 0
  // By the class and not by the state, which changes while idle pages of a span go back.
  size_t start = span->size_class == SizeClass::kNone ? span->block_offset()
                                                      : span->start_offset() + span->first();
  if (span->objects > 1) start += IndexOfOffset(info, offset - start) * info.size;
  return reinterpret_cast<const void*>(r.kernel.base() + start);
}

// Where the process heap's block begins that p lies in; null for other memory. Of large blocks only
// the first page is known.
STRATA_ALWAYS_INLINE const void* BlockAround(const void* p) {
  if (CurrentState() != RunState::kReady) return nullptr;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return nullptr;
  const PageId page(offset >> kPageShift);
  if (r.heap.page_map().ClassOf(page) != kDividedPage) return nullptr;
  const void* block = BlockInDivided(r, offset);
  return STRATA_LIKELY(block <= p) ? block : nullptr;
}

// The live reap that has its chunk there, where a block of the process heap begins.
STRATA_ALWAYS_INLINE strata_reap* ReapAt(const void* chunk) {
  auto* reap = static_cast<strata_reap*>(ReapHeap::owner_at(chunk));
  return reap != nullptr && IsLiveReap(reap) ? reap : nullptr;
}

// A block of the reap may begin at p. A lookup is most of what a free in a reap of many chunks
// costs, so it stands in line here.
STRATA_ALWAYS_INLINE bool LiesIn(strata_reap* reap, void* p) {
  const bool aligned = reinterpret_cast<uintptr_t>(p) % ReapHeap::alignment == 0;
  if (STRATA_UNLIKELY(!aligned)) return false;
  if (reap->heap.in_newest_chunk(p)) return true;
  const void* chunk = BlockAround(p);
  if (STRATA_UNLIKELY(chunk == p)) return false;  // in front of it lies what is another's
  return (chunk != nullptr && ReapAt(chunk) == reap) || ReapOfBlock(p) == reap;
}

}  // namespace strata
