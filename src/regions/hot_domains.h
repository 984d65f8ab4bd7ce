// The process's domains of moving objects, and the one thread that collects for all of them. Sits
// in regions; the calls of strata/hot.h are in hot_api.cpp.
#pragma once

#include <atomic>
#include <optional>

#include "base/lock.h"
#include "hotness/block_pool.h"
#include "hotness/hot_domain.h"
#include "hotness/object_collector.h"
#include "os/system_kernel.h"
#include "regions/hot_kernel.h"
#include "strata/hot.h"

// Records are never unmapped. One whose domain has ended serves the next with the same checks.
struct strata_hot_domain {
  strata_hot_domain(strata::BlockPool& pool, strata::ScopeSlot* s,
                    const strata::CollectorOptions& options)
      : domain(pool, s), collector(domain, options), slots(s) {}

  strata::HotDomain domain;
  strata::ObjectCollector collector;
  strata::ScopeSlot* const slots;
  std::optional<strata::CheckBounds> checks;
  bool threaded = false;
  // Under the lock of domains: it has ended, and nobody is at it any more.
  bool gone = false, spare = false;
  strata_hot_domain* next = nullptr;  // of all that were ever made
};

namespace strata {

// Of all domains.
struct HotDomains {
  constexpr explicit HotDomains(BlockDirectory::Top& top) : pool(arena, kProcessHotMemory, top) {}

  MetadataArena arena{MapMetadata};
  BlockPool pool;
  Owners owners{pool};
};
extern constinit HotDomains g_hot_domains;

// Null with errno: ENOMEM.
strata_hot_domain* MakeHotDomain(const CollectorOptions& options, bool threaded,
                                 std::optional<CheckBounds> checks);
// How many objects are in it, and the place of one; with none, the domain has ended.
size_t EndHotDomain(strata_hot_domain* domain, ObjectPlace* first);

// In a forked child the thread starts again with the first operation.
extern std::atomic<bool> g_hot_thread_wanted;
void StartHotThread();

// The type of the object of a checked domain whose old place the address lies in; null: none.
const char* StaleTypeAt(uintptr_t address);

}  // namespace strata
