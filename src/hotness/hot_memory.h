// What a domain asks of the outside world: runs of memory, advice to the kernel, and time. A table
// of functions, as every call costs a system call or a lock; a process fills it from its heap
// (regions/hot_domains.cpp), tests from a fake. Sits in hotness.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"
#include "os/damon.h"

namespace strata {

enum class PageAdvice : uint8_t {
  kHuge,     // ask for hugepages
  kNoHuge,   // none, so that single pages can go
  kCold,     // first to go when memory is short
  kPageOut,  // go now
  kFree,     // the contents are not needed any more
  kShut,     // nobody may touch it
  kOpen,     // any more; what was there is lost
};

// Whether the domain asks for the first time, or its range has grown.
enum class WatchOf : bool { kFirst, kMore };

struct HotMemory {
  // Aligned to 2 MiB; null: no memory. Contents: anything.
  void* (*take)(void* context, size_t bytes, Hotness hotness);
  void (*give)(void* context, void* at, size_t bytes);
  // False: refused. The range is of whole native pages.
  bool (*advise)(void* context, void* at, size_t bytes, PageAdvice advice);
  size_t (*resident)(void* context, void* at, size_t bytes);
  uint64_t (*now_ns)(void* context);
  uint64_t (*thread_cpu_ns)(void* context);
  int64_t (*headroom)(void* context);              // as PageKernel::Headroom()
  uint64_t (*free_swap)(void* context);            // bytes
  bool (*reclaim)(void* context, uint64_t bytes);  // from the process's cgroup; false: refused
  // Has DAMON page out what of the range is not used; null: it does. Else a word why not.
  const char* (*watch)(void* context, AddressRange range, WatchOf of);
  void (*unwatch)(void* context);               // by whom watch was asked before
  uint32_t (*pressure_per_10k)(void* context);  // share of the last 10 s that waited for memory
  void (*pause_ns)(void* context, uint64_t ns);
  void* context;
};

}  // namespace strata
