// Hoard, as a composition: buffers for each thread, the heap of superblocks, and Strata's page
// heap, so that superblocks and blocks larger than half of one lie on hugepages, and what is empty
// goes back to the system. docs/hoard.md says how it works, docs/heaps.md when to use it. Sits in
// heaps.
#pragma once

#include "heaps/page_heap_source.h"
#include "strata/layers/thread/hoard.h"
#include "strata/layers/thread/thread_buffers.h"

namespace strata {

using ProcessHoard = layers::ProcessHoardTraits;

template <class Source>
using HoardOver = layers::Stack<layers::ThreadBuffers<>, layers::Hoard<ProcessHoard>, Source>;

using HoardHeap = HoardOver<PageHeapSource<ProcessHoard::superblock>>;

}  // namespace strata
