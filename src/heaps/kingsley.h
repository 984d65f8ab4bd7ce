// Kingsley's allocator (4.2BSD), as a composition: a free list for each power of two, carved from
// chunks, with one word in front of each block. Nothing is split, joined or given back: the fastest
// of the classics, at up to twice the memory. docs/heaps.md says when to use it. Sits in heaps.
#pragma once

#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/class_header.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/thread/locked_when_shared.h"

namespace strata {

// Without its lock, for one thread.
using KingsleyCore =
    layers::Stack<layers::ClassHeader,
                  layers::Bins<layers::PowersOfTwo<32, size_t{1} << 46>, layers::FreeList>,
                  layers::Bump<1 << 20, 8>, layers::Mmap>;

using Kingsley = layers::LockedWhenShared::On<KingsleyCore>;

}  // namespace strata
