// A memory for domains that a test holds in its hand: it counts, fails on demand, and its clock
// goes forward by itself a little. Threads may use it at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/metadata_arena.h"
#include "hotness/block_pool.h"
#include "hotness/hot_domain.h"
#include "hotness/hot_memory.h"
#include "hotness/object_collector.h"

namespace strata {

struct FakeHotMemory {
  std::atomic<size_t> taken{0}, given{0};
  std::atomic<size_t> takes_left{~size_t{0}};  // then there is no memory
  std::atomic<uint64_t> now{1};
  std::atomic<uint64_t> advice[7] = {};  // bytes of each kind
  std::atomic<bool> refuses_advice{false};
  std::atomic<uint64_t> swap{uint64_t{1} << 30};
  std::atomic<int64_t> room{INT64_MAX};
  std::atomic<uint32_t> pressure{0};
  std::atomic<uint64_t> reclaimed{0};
  std::mutex lock;
  std::set<void*> blocks;  // under it

  const char* no_damon = nullptr;  // why not
  AddressRange watched;
  std::atomic<int> watching{0};

  HotMemory table{Take, Give,    Advise, Resident, Now,      Cpu,   Room,
                  Swap, Reclaim, Watch,  Unwatch,  Pressure, Pause, this};
  MetadataArena arena{Map};
  BlockDirectory::Top top;
  BlockPool pool{arena, table, top};

  ~FakeHotMemory() {
    for (void* p : blocks) free(p);
  }

  // Metadata is never given back; the list keeps the leak checker quiet.
  static inline std::atomic<bool> no_metadata{false};
  static void* Map(size_t bytes) {
    if (no_metadata) return nullptr;
    static std::mutex lock;
    static auto* const all = new std::vector<void*>;
    const std::lock_guard hold(lock);
    all->push_back(calloc(1, bytes));
    return all->back();
  }
  static FakeHotMemory& Of(void* c) { return *static_cast<FakeHotMemory*>(c); }
  static void* Take(void* c, size_t bytes, Hotness) {
    FakeHotMemory& f = Of(c);
    if (f.takes_left.load() == 0) return nullptr;
    if (f.takes_left.load() != ~size_t{0}) --f.takes_left;
    f.taken += bytes;
    void* p = aligned_alloc(kHugePageSize, RoundUp(bytes, kHugePageSize));
    memset(p, 0x5a, bytes);
    const std::lock_guard hold(f.lock);
    f.blocks.insert(p);
    return p;
  }
  static void Give(void* c, void* at, size_t bytes) {
    memset(at, 0xdd, bytes);
    Of(c).given += bytes;
    const std::lock_guard hold(Of(c).lock);
    Of(c).blocks.erase(at);
    free(at);
  }
  static bool Advise(void* c, void*, size_t bytes, PageAdvice advice) {
    if (Of(c).refuses_advice) return false;
    Of(c).advice[static_cast<int>(advice)] += bytes;
    return true;
  }
  static size_t Resident(void*, void*, size_t bytes) { return bytes; }
  static uint64_t Now(void* c) { return Of(c).now.fetch_add(1000); }
  static uint64_t Cpu(void* c) { return Of(c).now.load(); }
  static int64_t Room(void* c) { return Of(c).room; }
  static uint64_t Swap(void* c) { return Of(c).swap; }
  static bool Reclaim(void* c, uint64_t bytes) {
    if (Of(c).refuses_advice) return false;
    Of(c).reclaimed += bytes;
    return true;
  }
  static const char* Watch(void* c, AddressRange range, WatchOf of) {
    if (Of(c).no_damon == nullptr && of == WatchOf::kFirst) ++Of(c).watching;
    Of(c).watched = range;
    return Of(c).no_damon;
  }
  static void Unwatch(void* c) { --Of(c).watching; }
  static uint32_t Pressure(void* c) { return Of(c).pressure; }
  static void Pause(void* c, uint64_t ns) {
    Of(c).now += ns;
    std::this_thread::yield();
  }
};

// A domain on it, from whose collector the test has each round.
struct HotScene {
  FakeHotMemory memory;
  std::vector<ScopeSlot> slots = std::vector<ScopeSlot>(ScopeTable::kSlots);
  HotDomain domain{memory.pool, slots.data()};
  CollectorOptions options;
  ObjectCollector collector;

  explicit HotScene(const CollectorOptions& o = {}) : options(o), collector(domain, options) {}

  // An object of `size` bytes, all of them `fill`, owned by the guide.
  bool Make(strata_hot_guide* guide, size_t size, unsigned char fill,
            const strata_hot_type* type = nullptr) {
    void* p = domain.Allocate(size, 16, type);
    if (p == nullptr) return false;
    memset(p, fill, size);
    domain.owners().Own(guide, p);
    return true;
  }
  void Drop(strata_hot_guide* guide) {
    if (void* p = domain.owners().Disown(guide)) domain.owners().Free(p);
  }
  // In an operation of its own.
  unsigned char Use(strata_hot_guide* guide) {
    strata_hot_scope scope;
    domain.Enter(&scope);
    auto* p = static_cast<unsigned char*>(HotDomain::GetSlow(&scope, guide));
    const unsigned char byte = p == nullptr ? 0 : p[0];
    HotDomain::Leave(&scope);
    return byte;
  }
  void Round() { collector.Round(RoundBounds::kAtOnce); }
  HotHeap HeapOf(const strata_hot_guide& g) { return GuideWord(g.word).heap(); }
};

inline constexpr uint32_t kWindowsToCold =
    PromotionPolicy::kFirst + 1;  // the first forgets the making

inline bool AllBytesAre(const strata_hot_guide& g, size_t size, unsigned char fill) {
  const auto* p = static_cast<const unsigned char*>(strata_hot_peek(&g));
  for (size_t i = 0; i < size; ++i) {
    if (p[i] != fill) return false;
  }
  return true;
}

}  // namespace strata
