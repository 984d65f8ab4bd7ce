// The process's domains of moving objects, and the one thread that collects for all of them. Sits
// in regions; the calls of strata/hot.h are in hot_api.cpp.
#pragma once

#include <atomic>
#include <optional>

#include "base/lock.h"
#include "hotness/block_pool.h"
#include "hotness/hot_domain.h"
#include "hotness/object_collector.h"
#include "os/metadata_memory.h"
#include "regions/domain_record.h"
#include "regions/hot_kernel.h"
#include "strata/hot.h"

namespace strata {

// Never unmapped. One whose domain has ended serves another with the same checks. What it is as a
// DomainRecord is under the lock of domains.
struct HotRecord : DomainRecord {
  HotRecord(BlockPool& pool, ScopeSlot* s, const CollectorOptions& options)
      : domain(pool, s), collector(domain, options), slots(s) {}

  static HotRecord& Of(strata_hot_domain* handle) {
    return static_cast<HotRecord&>(DomainRecord::Of(handle));
  }

  HotDomain domain;
  ObjectCollector collector;
  ScopeSlot* const slots;
  std::optional<CheckBounds> checks;
  bool threaded = false;
  HotRecord* next = nullptr;  // of all that were ever made
};

// Of all domains.
struct HotDomains {
  constexpr explicit HotDomains(BlockDirectory::Top& top) : pool(arena, kProcessHotMemory, top) {}

  MetadataArena arena{MapMetadata};
  BlockPool pool;
  Owners owners{pool};
};
extern constinit HotDomains g_hot_domains;

enum class CollectedBy : bool { kCaller, kThread };
// Null with errno: ENOMEM.
strata_hot_domain* MakeHotDomain(const CollectorOptions& options, CollectedBy who,
                                 std::optional<CheckBounds> checks);
// How many objects are in it, and the place of one; with none, the domain has ended. Nothing: it
// had before, or another thread is ending it.
std::optional<size_t> EndHotDomain(strata_hot_domain* domain, ObjectPlace* first);

// In a forked child the thread starts again with the first operation.
extern std::atomic<bool> g_hot_thread_wanted;
void StartHotThread();

// The type of the object of a checked domain whose old place the address lies in; null: none.
const char* StaleTypeAt(uintptr_t address);

}  // namespace strata
