// All of the layer library (docs/layers.md): heaps built from parts, and what gives them to a
// program. Headers only, C++20:
//
//   using MyHeap = strata::layers::Stack<...>;
//   MyHeap heap;
//   std::vector<int, strata::layers::Allocator<int, MyHeap>> numbers(heap);
//
// The parts are in folders: source/ (where memory comes from), combine/ (what lies in between),
// thread/ (locks, and heaps for threads), tool/ (what watches); detail/ is theirs.
#pragma once

#if __cplusplus < 202002L
#error "strata/layers.h needs C++20: compile with -std=c++20"
#else

// clang-format off: by folder
#include "strata/layers/allocator.h"
#include "strata/layers/heap.h"
#include "strata/layers/per_class.h"
#include "strata/layers/resource.h"
#include "strata/layers/source/aligned_mmap.h"
#include "strata/layers/source/growing.h"
#include "strata/layers/source/of_malloc.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/source/ref.h"
#include "strata/layers/source/sbrk.h"
#include "strata/layers/source/static_buffer.h"
#include "strata/layers/source/upstream.h"
#include "strata/layers/combine/apart.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/capped.h"
#include "strata/layers/combine/class_header.h"
#include "strata/layers/combine/classes.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/deferred_pop.h"
#include "strata/layers/combine/first_fit.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/header.h"
#include "strata/layers/combine/listed.h"
#include "strata/layers/combine/nested.h"
#include "strata/layers/combine/obstack.h"
#include "strata/layers/combine/only_live.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/combine/split.h"
#include "strata/layers/combine/tree_fit.h"
#include "strata/layers/combine/try_first.h"
#include "strata/layers/combine/zeroed.h"
#include "strata/layers/thread/hoard.h"
#include "strata/layers/thread/inbox.h"
#include "strata/layers/thread/index.h"
#include "strata/layers/thread/locked.h"
#include "strata/layers/thread/locked_when_shared.h"
#include "strata/layers/thread/of_thread.h"
#include "strata/layers/thread/per_thread.h"
#include "strata/layers/thread/thread_buffers.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"
#include "strata/layers/tool/fail_nth.h"
#include "strata/layers/tool/guard.h"
#include "strata/layers/tool/log.h"
#include "strata/layers/tool/profile.h"
#include "strata/layers/tool/trace.h"
// clang-format on

#endif  // C++20
