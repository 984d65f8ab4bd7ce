// A sampler over a page map of its own, with addresses that stand for nothing, a clock that is a
// number, and stacks that are made up. An allocation goes through a countdown as in the library.
#pragma once

#include <cstdlib>
#include <map>
#include <vector>

#include "base/metadata_arena.h"
#include "profile/sampler.h"
#include "span/page_map.h"

namespace strata::test {

// Memory for metadata that can be made to run out.
inline long g_arena_chunks_left = -1;  // negative: no end
inline void* MapForTest(size_t bytes) {
  if (g_arena_chunks_left == 0) return nullptr;
  if (g_arena_chunks_left > 0) --g_arena_chunks_left;
  void* p = nullptr;
  if (posix_memalign(&p, kNativePageSize, bytes) != 0) return nullptr;
  __builtin_memset(p, 0, bytes);
  static struct Owned {
    std::vector<void*> all;
    ~Owned() {
      for (void* q : all) free(q);
    }
  } owned;
  owned.all.push_back(p);
  return p;
}

class SampledHeap {
 public:
  static constexpr uintptr_t kBase = uintptr_t{1} << 30;
  static constexpr size_t kPages = 1 << 16;

  explicit SampledHeap(size_t interval, uint64_t seed = 1)
      : entries_(kPages, PageEntry{ClassBits(SizeClass{7}), 0}),
        spans_(kPages),
        arena(MapForTest),
        sampler(Attached(), kBase, kPages * kPageSize, arena) {
    sampler.SetInterval(interval);
    countdown.Seed(seed);
  }

  SampleEvent At(uintptr_t address) const { return {address, now_ns, thread, cpu}; }

  // Whether the block became a sample. Each site is one stack.
  bool Allocate(uintptr_t address, size_t size, uintptr_t site) {
    if (!Count(size)) return false;
    return Sample(address, size, site);
  }
  bool Sample(uintptr_t address, size_t size, uintptr_t site) {
    const uintptr_t stack[] = {site, 0x1000, 0x2000};
    const auto interval = static_cast<double>(sampler.rate().interval);
    return sampler.Add(At(address), size, static_cast<double>(size) / interval, stack, 3);
  }
  bool Count(size_t bytes) {
    if (countdown.stretch > bytes) {
      countdown.stretch -= bytes;
      return false;
    }
    return countdown.Spend(bytes, sampler.rate(), Stretches::kAllowed);
  }
  bool Free(uintptr_t address) { return sampler.Remove(At(address)); }
  bool Resize(uintptr_t from, uintptr_t to, size_t old_size, size_t size, uintptr_t site) {
    const size_t grown = size > old_size ? size - old_size : 0;
    const bool due = grown != 0 && Count(grown);
    const auto interval = static_cast<double>(sampler.rate().interval);
    if (sampler.Move(from, to, size, static_cast<double>(grown) / interval)) return true;
    return due && Sample(to, size, site);
  }
  bool IsFlagged(uintptr_t address) const {
    return IsSampledPage(pages.EntryOf(PageId((address - kBase) >> kPageShift)));
  }

  // Sums over the rows of a site.
  SampleSums SumsOf(uintptr_t site) const {
    SampleSums all;
    sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
      if (row.context->frames()[0] != site) return;
      all.samples += s.samples;
      all.allocated_objects += s.allocated_objects;
      all.allocated_bytes += s.allocated_bytes;
      all.live_objects += s.live_objects;
      all.live_bytes += s.live_bytes;
      all.peak_objects += s.peak_objects;
      all.peak_bytes += s.peak_bytes;
      all.live_samples += s.live_samples;
      all.peak_samples += s.peak_samples;
      all.lifetimes.objects += s.lifetimes.objects;
      all.lifetimes.other_thread += s.lifetimes.other_thread;
      all.lifetimes.other_cpu += s.lifetimes.other_cpu;
    });
    return all;
  }

 private:
  PageMap& Attached() {
    pages.Attach(kBase, entries_.data(), spans_.data());
    return pages;
  }

  std::vector<PageEntry> entries_;
  std::vector<Span*> spans_;

 public:
  PageMap pages;
  MetadataArena arena;
  Sampler sampler;
  SampleCountdown countdown;
  uint64_t now_ns = 1'000'000;
  uint32_t thread = 1;
  uint32_t cpu = 0;
};

}  // namespace strata::test
