// What LLAMA's heap takes of the outside, for tests: huge pages from mappings that are counted and
// go back at the end, metadata likewise, and a clock that stands still.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/units.h"
#include "lifetime/lifetime_heap.h"
#include "strata/layers/source/aligned_mmap.h"

namespace strata::test {

// Runs of whole huge pages, of which any part may be given back.
class FakeSource {
 public:
  static constexpr size_t alignment = kHugePageSize;
  static constexpr bool thread_safe = true;

  ~FakeSource() {
    for (const uintptr_t page : pages_) munmap(reinterpret_cast<void*>(page), kHugePageSize);
  }
  void* allocate(size_t size) { return allocate(size, kHugePageSize); }
  void* allocate(size_t size, size_t align) {
    std::lock_guard hold(mutex_);
    if (refuse_above != 0 && size > refuse_above) return nullptr;
    const size_t bytes = RoundUp(size, kHugePageSize);
    const size_t more = align;
    auto whole =
        reinterpret_cast<uintptr_t>(mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (whole == reinterpret_cast<uintptr_t>(MAP_FAILED)) return nullptr;
    const uintptr_t base = RoundUp(whole, align);
    if (base != whole) munmap(reinterpret_cast<void*>(whole), base - whole);
    if (whole + more != base) munmap(reinterpret_cast<void*>(base + bytes), whole + more - base);
    for (uintptr_t p = base; p < base + bytes; p += kHugePageSize) pages_.push_back(p);
    return reinterpret_cast<void*>(base);
  }
  void deallocate(void* p, size_t size) {
    std::lock_guard hold(mutex_);
    const auto base = reinterpret_cast<uintptr_t>(p);
    const size_t gone =
        std::erase_if(pages_, [&](uintptr_t page) { return page >= base && page < base + size; });
    if (gone * kHugePageSize != size) abort();
    munmap(p, size);
  }
  size_t pages() {
    std::lock_guard hold(mutex_);
    return pages_.size();
  }
  size_t refuse_above = 0;  // bytes; 0: nothing is refused

 private:
  std::mutex mutex_;
  std::vector<uintptr_t> pages_;
};

// One for all heaps of a test: they ask it by copies.
struct FakeClock {
  static inline std::atomic<uint64_t> now{1};
  uint64_t NowNs() const { return now; }
  static void Advance(uint64_t ns) { now += ns; }
};

// The shard that a thread uses, in the place of its CPU: the first until it says otherwise.
struct FakeCpu {
  static inline thread_local size_t mine = 0;
  static size_t index() { return mine; }
};

// Metadata of the heaps of a test; given back when it ends. One at a time exists.
class FakeMetadata {
 public:
  ~FakeMetadata() {
    for (void* p : blocks) free(p);
    blocks.clear();
  }
  static void* Map(size_t bytes) {
    std::lock_guard hold(mutex);
    if (fail) return nullptr;
    void* p = aligned_alloc(4096, RoundUp(bytes, 4096));
    memset(p, 0, bytes);
    blocks.push_back(p);
    return p;
  }
  static inline bool fail = false;

 private:
  static inline std::mutex mutex;
  static inline std::vector<void*> blocks;
};

inline constexpr uint64_t kMs = 1'000'000;

// A heap on fakes. Members end in the right order.
template <size_t kShards = 4, SparePage kSpare = SparePage::kNone>
struct HeapOnFakes {
  using Heap = LifetimeHeap<FakeSource, FakeClock, kShards, kSpare, FakeCpu>;
  FakeMetadata metadata;
  FakeSource source;
  Heap heap{source, FakeMetadata::Map};

  void* Take(size_t bytes, LifetimeClass c, size_t align = 16) {
    return heap.Allocate(bytes, align, c);
  }
  void Free(void* p) { heap.Deallocate(p); }

  // Another thread stands at the first shard's lock until this one has met it often enough.
  void Meet() {
    std::vector<Lock*> locks;
    heap.VisitLocks([&](Lock& lock) { locks.push_back(&lock); });
    std::atomic<bool> met{false};
    std::thread other([&] {
      while (!met) {
        LockHolder hold(*locks.at(1));  // behind the heap's own
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    FakeCpu::mine = 1;
    while (!met) {
      Free(Take(20'000, LifetimeClass::kForever));
      met = heap.Stats().open_pages[RungOf(LifetimeClass::kForever)] == 2;
    }
    FakeCpu::mine = 0;
    other.join();
  }
};

}  // namespace strata::test
