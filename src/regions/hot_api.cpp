// The calls of strata/hot.h. Sits in regions.
#include <errno.h>

#include <optional>

#include "base/message.h"
#include "base/race_detector.h"
#include "hotness/address_bits.h"
#include "regions/hot_domains.h"
#include "regions/hot_kernel.h"
#include "strata/hot.h"

namespace strata {
namespace {

Owners& TheOwners() { return g_hot_domains.owners; }

CollectorOptions OptionsOf(const strata_hot_options* given) {
  CollectorOptions o;
  if (given == nullptr) return o;
  if (given->period_ms != 0) o.period_ns = uint64_t{given->period_ms} * 1'000'000;
  if (given->target > 0 && given->target < 1) o.target = given->target;
  if (given->cpu_share > 0 && given->cpu_share <= 1) o.cpu_share = given->cpu_share;
  if (given->bytes_per_second != 0) o.bytes_per_second = given->bytes_per_second;
  o.reclaim = given->reclaim;
  return o;
}

std::atomic<strata_hot_domain*> g_default{nullptr};

}  // namespace
}  // namespace strata

using namespace strata;

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

STRATA_EXPORT strata_hot_domain* strata_hot_domain_create(const strata_hot_options* options) {
  if (options != nullptr &&
      (options->size != sizeof *options ||
       static_cast<unsigned>(options->reclaim) > STRATA_HOT_RECLAIM_DAMON || options->check > 2)) {
    errno = EINVAL;
    return nullptr;
  }
  const int here = 0;
  if (const char* why =
          WhyGuidesCannotHold(AddressUntagMask(), reinterpret_cast<uintptr_t>(&here))) {
    Message().Text("no domain of moving objects: ").Text(why).Send();
    errno = ENOTSUP;
    return nullptr;
  }
  std::optional<CheckBounds> checks;
  if (options != nullptr && options->check != 0)
    checks = options->check == 1 ? CheckBounds::kEverything : CheckBounds::kTheFirst;
  const bool threaded = options == nullptr || options->without_thread == 0;
  return MakeHotDomain(OptionsOf(options), threaded ? CollectedBy::kThread : CollectedBy::kCaller,
                       checks);
}

STRATA_EXPORT void strata_hot_domain_destroy(strata_hot_domain* d) {
  if (d == nullptr) return;
  ObjectPlace first;
  const std::optional<size_t> live = EndHotDomain(d, &first);
  if (live == 0) return;
  Message m;
  m.Text("a domain of moving objects was destroyed ");
  if (live) {
    m.Text("with ").Number(*live).Text(*live == 1 ? " object in it" : " objects in it");
  } else {
    m.Text("twice");
  }
  if (first) {
    const strata_hot_type* type = first.block->shelf.load(std::memory_order_relaxed)->type;
    if (type != nullptr && type->name != nullptr && type->name[0] != '\0')
      m.Text(", one of them ").Text(type->name);
  }
  m.Send();
#ifndef NDEBUG
  __builtin_abort();
#endif
}

STRATA_EXPORT strata_hot_domain* strata_hot_domain_default(void) {
  strata_hot_domain* d = g_default.load(std::memory_order_acquire);
  if (d != nullptr) return d;
  strata_hot_domain* fresh = strata_hot_domain_create(nullptr);
  if (fresh == nullptr) return nullptr;
  if (g_default.compare_exchange_strong(d, fresh, std::memory_order_acq_rel)) return fresh;
  ObjectPlace none;
  EndHotDomain(fresh, &none);
  return d;
}

STRATA_EXPORT void strata_hot_enter(strata_hot_domain* domain, strata_hot_scope* scope) {
  if (STRATA_UNLIKELY(g_hot_thread_wanted.load(std::memory_order_relaxed))) StartHotThread();
  HotRecord::Of(domain).domain.Enter(scope);
}
STRATA_EXPORT void strata_hot_leave(strata_hot_scope* scope) { HotDomain::Leave(scope); }

STRATA_EXPORT void* strata_hot_allocate(strata_hot_domain* domain, size_t size, size_t alignment,
                                        const strata_hot_type* type) {
  void* p = HotRecord::Of(domain).domain.Allocate(size, alignment, type);
  if (p == nullptr) errno = ENOMEM;
  return p;
}
STRATA_EXPORT void* strata_hot_allocate_beside(strata_hot_domain* domain, size_t size,
                                               size_t alignment, const strata_hot_type* type,
                                               const void* other) {
  const ObjectPlace at = other == nullptr ? ObjectPlace{} : TheOwners().Find(other);
  void* p = HotRecord::Of(domain).domain.Allocate(size, alignment, type,
                                                  at ? Owners::HeapOf(at) : HotHeap::kNew);
  if (p == nullptr) errno = ENOMEM;
  return p;
}
STRATA_EXPORT void strata_hot_own(strata_hot_guide* guide, void* object) {
  TheOwners().Own(guide, object);
}
STRATA_EXPORT void* strata_hot_disown(strata_hot_guide* guide) { return TheOwners().Disown(guide); }
STRATA_EXPORT void strata_hot_move(strata_hot_guide* to, strata_hot_guide* from) {
  // An empty one has nothing to do with any domain, and there may be none.
  if (strata_hot_peek(from) != nullptr) TheOwners().Move(to, from);
}
STRATA_EXPORT void strata_hot_move_guides(void* to, void* from, size_t bytes) {
  TheOwners().MoveGuides(to, from, bytes);
}
STRATA_EXPORT void strata_hot_free(void* object) {
  if (object != nullptr) TheOwners().Free(object);
}
STRATA_EXPORT void strata_hot_retire(strata_hot_domain* domain, void* object) {
  HotRecord::Of(domain).domain.Retire(object);
}
STRATA_EXPORT int strata_hot_exchange(strata_hot_scope* scope, strata_hot_guide* guide,
                                      void* expected, void* object) {
  auto* d = reinterpret_cast<HotDomain*>(scope->domain);
  return d->Exchange(guide, expected, object) ? 1 : 0;
}
STRATA_EXPORT void* strata_hot_get_slow(strata_hot_scope* scope, strata_hot_guide* guide) {
  void* const object = HotDomain::GetSlow(scope, guide);
  race_detector::After(guide);
  return object;
}
STRATA_EXPORT size_t strata_hot_size(const void* object) { return TheOwners().SizeOf(object); }

STRATA_EXPORT void strata_hot_collect(strata_hot_domain* domain) {
  const HotMemory& memory = g_hot_domains.pool.memory();
  ObjectCollector& collector = HotRecord::Of(domain).collector;
  while (!collector.Round(RoundBounds::kAtOnce)) {
    if (collector.RoundIsMine()) return;
    memory.pause_ns(memory.context, 1'000'000);
  }
}
STRATA_EXPORT void strata_hot_set_target(strata_hot_domain* domain, double share) {
  if (share > 0 && share < 1) HotRecord::Of(domain).collector.set_target(share);
}

STRATA_EXPORT int strata_hot_stats(strata_hot_domain* domain, strata_hot_stats_t* s) {
  if (s->size != sizeof *s) return 0;
  HotRecord& d = HotRecord::Of(domain);
  const CollectorCounts& c = d.collector.counts();
  const auto read = [](const auto& n) { return n.load(std::memory_order_relaxed); };
  for (int h = 0; h < kHotHeaps; ++h) s->heap[h] = d.domain.HeapStats(static_cast<HotHeap>(h));
  s->cold_after = read(c.cold_after);
  s->rounds = read(c.rounds);
  s->epochs = read(c.epochs);
  s->moves = read(c.moves);
  s->moved_bytes = read(c.moved_bytes);
  s->promotions = read(c.promotions);
  s->demotions = read(c.demotions);
  s->aborted_in_use = read(c.in_use);
  s->aborted_used = read(c.used);
  s->aborted_no_memory = read(c.no_memory);
  s->aborted_near_limit = read(c.near_limit);
  s->epochs_given_up = read(c.epochs_given_up);
  s->paged_out_bytes = read(c.paged_out_bytes);
  s->collector_ns = read(c.cpu_ns);
  s->retired_waiting = d.domain.retired_waiting();
  s->promotion_rate = read(c.rate);
  s->target = d.collector.target();
  s->utilization = read(c.utilization);
  return 1;
}
