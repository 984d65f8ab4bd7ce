// Where a layer could hand out what is not its to give, or give back what it never had: each case a
// composition that once did.
#include <gtest/gtest.h>

#include "heap_model.h"
#include "strata/layers.h"

namespace strata::layers {
namespace {

// --- Bins whose layers cut blocks, or shift them, over a heap that knows its own

template <class... PerBin>
using OverCoalesce = Stack<Check, Bins<Geometric<1024>, PerBin...>, Coalesce<>, Mmap>;

// The heap below does not know such blocks, so nothing may be asked of it about them.
template <class... PerBin>
constexpr bool kOnlyBySize =
    !SizedHeap<OverCoalesce<PerBin...>> && !AlignedHeap<OverCoalesce<PerBin...>> &&
    !ResizableHeap<OverCoalesce<PerBin...>>;

template <class Layer>
using Private =
    Stack<Bins<Geometric<1024>, PrivateHeaps<2, ThreadIndex, Layer>>, Locked, Coalesce<>, Mmap>;

TEST(Bins, AskNothingBelowAboutBlocksThatWereCutOrShifted) {
  static_assert(kOnlyBySize<FreeList, Bump<>>);
  static_assert(kOnlyBySize<SizeHeader, FreeList>);
  static_assert(kOnlyBySize<Header<long>, FreeList>);
  static_assert(kOnlyBySize<Locked, Bump<>>);
  static_assert(!kOnlyBySize<FreeList> && !kOnlyBySize<BoundedFreeList<4>, Inbox>);
  static_assert(!kOnlyBySize<Locked, FreeList> && !kOnlyBySize<Zeroed, Log>);
  static_assert(SizedHeap<Private<FreeList>> && !SizedHeap<Private<Bump<>>>);
  using OverMalloc = Stack<Bins<Geometric<1024>, Bump<>>, Malloc>;
  static_assert(!SizedHeap<OverMalloc> && !RemappingHeap<OverMalloc>);
  OverCoalesce<FreeList, Bump<>> cut;
  RunModel(cut, 3000, 1, MixedSize);
  OverCoalesce<Header<long>, FreeList> shifted;
  RunModel(shifted, 3000, 2, MixedSize);
}

}  // namespace
}  // namespace strata::layers
