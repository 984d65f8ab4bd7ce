// What a central free list stands on, for tests: spans from a small window of real memory, a page
// map over it, a record of what was given back inside spans, calls that fail on demand, and a hook
// that runs while pages are being released. Wrong calls end the test at once.
#pragma once

#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "../hugepage/test_arena.h"
#include "base/check.h"
#include "os/page_kernel.h"

#include "span/central_free_list.h"
#include "span/page_map.h"
#include "span/span.h"

namespace strata::test {

class FakeSource {
 public:
  explicit FakeSource(size_t pages = 2048)
      : memory_(static_cast<char*>(aligned_alloc(kPageSize, pages * kPageSize))),
        taken_(pages),
        entries_(pages),
        spans_(pages),
        released_(pages * kNativePerPage) {
    STRATA_CHECK(memory_ != nullptr);
    page_map_.Attach(reinterpret_cast<uintptr_t>(memory_), entries_.data(), spans_.data());
  }
  ~FakeSource() { free(memory_); }
  FakeSource(const FakeSource&) = delete;
  FakeSource& operator=(const FakeSource&) = delete;

  // --- What the central free list calls.
  Span* TakeSpan(SizeClass c, SpanLength length) {
    return Make(c, length, PlacementOf(c), ObjectGroup::kNone);
  }
  Span* TakeSpanIn(SizeClass c, Placement placement) {
    return Make(c, SpanLength::kFull, placement, ObjectGroup::kNone);
  }
  Span* TakeSpanOf(SizeClass c, SpanLength length, ObjectGroup group) {
    return Make(c, length, PlacementOf(c), group);
  }
  Span* Make(SizeClass c, SpanLength length, Placement placement, ObjectGroup group) {
    if (on_call) on_call();
    last_placement = placement;
    ++take_calls;
    if (fail_take_in >= 0 && fail_take_in-- == 0) return nullptr;
    const SpanShape shape = ShapeOf(c, short_spans ? length : SpanLength::kFull);
    const size_t first = FindFree(shape.pages);
    if (first == taken_.size()) return nullptr;
    Span* span = pool_.New(shape.objects);
    if (span == nullptr) return nullptr;
    span->first_page = static_cast<uint32_t>(first);
    span->num_pages = static_cast<uint32_t>(shape.pages);
    span->size_class = c;
    span->group = group;
    span->InitBits();
    for (size_t p = first; p < first + shape.pages; ++p) taken_[p] = true;
    page_map_.Set(span->range(), span, c);
    live_spans.insert(span);
    return span;
  }

  void GiveSpan(Span* span) {
    if (on_call) on_call();
    STRATA_CHECK(live_spans.erase(span) == 1);
    STRATA_CHECK(span->allocated == 0);
    STRATA_CHECK(span->list_next == nullptr && span->list_prev == nullptr);
    for (size_t p = span->first_page; p < span->first_page + span->num_pages; ++p) {
      STRATA_CHECK(taken_[p]);
      taken_[p] = false;
      for (size_t n = 0; n < kNativePerPage; ++n) released_[p * kNativePerPage + n] = false;
    }
    page_map_.Clear(span->range(), span->size_class);
    pool_.Delete(span);
    ++give_calls;
  }

  PageMap& page_map() { return page_map_; }
  uintptr_t base() const { return reinterpret_cast<uintptr_t>(memory_); }

  // The contents are gone: filled with a pattern that no test writes.
  struct Done {
    size_t bytes;
    bool refused;
  };
  Done ReleaseInUse(NativeRange* ranges, size_t n, Program program) {
    STRATA_CHECK(n != 0);
    if (on_call) on_call();
    if (on_release) on_release();
    ++release_calls;
    if (refuse_release) return {0, true};
    if (spare_hugepages && program != Program::kIsShort) {
      for (size_t i = 0; i < n; ++i) ranges[i].bytes = 0;
      return {0, false};
    }
    size_t bytes = 0;
    size_t last_end = 0;
    for (size_t i = 0; i < n; ++i) {
      const NativeRange r = ranges[i];
      STRATA_CHECK(r.bytes != 0 && (r.offset | r.bytes) % kNativePageSize == 0);
      STRATA_CHECK(r.offset + r.bytes <= taken_.size() * kPageSize);
      Span* span = page_map_.SpanOf(PageId(r.offset >> kPageShift));
      STRATA_CHECK(span != nullptr && span->state == SpanState::kIsolated);
      STRATA_CHECK(page_map_.SpanOf(PageId((r.offset + r.bytes - 1) >> kPageShift)) == span);
      for (size_t p = r.offset >> kNativePageShift; p < (r.offset + r.bytes) >> kNativePageShift;
           ++p) {
        if (!released_[p]) bytes += kNativePageSize;
        released_[p] = true;
        memset(memory_ + (p << kNativePageShift), 0xdd, kNativePageSize);
      }
      last_end = r.offset + r.bytes;
    }
    STRATA_CHECK(last_end != 0);
    return {bytes, false};
  }

  void NoteIdle(const NativePages* spans, size_t n) {
    if (on_call) on_call();
    for (size_t i = 0; i < n; ++i) surveyed += static_cast<size_t>(std::popcount(spans[i].pages));
  }

  Lock& isolation_lock() {
    ++isolation_calls;
    return isolation_lock_;
  }
  void NoteReused(const NativePages* spans, size_t n) {
    if (on_call) on_call();
    if (on_reused) on_reused();
    ++reused_calls;
    STRATA_CHECK(n != 0);
    for (size_t i = 0; i < n; ++i) {
      STRATA_CHECK(spans[i].offset % kNativePageSize == 0 && spans[i].pages != 0);
      for (size_t bit = 0; bit < 64; ++bit) {
        if ((spans[i].pages >> bit & 1) == 0) continue;
        ++reused_pages;
        released_[(spans[i].offset >> kNativePageShift) + bit] = false;
      }
    }
  }

  // The kernel gave the pages memory again.
  void Rebuild() { released_.assign(released_.size(), false); }

  void ReportBadFree(void* p) {
    if (on_call) on_call();
    bad_frees.push_back(p);
  }

  // --- What tests set and ask.
  bool Released(const void* p) const {
    return released_[(reinterpret_cast<uintptr_t>(p) - base()) >> kNativePageShift];
  }
  size_t ReleasedPages() const {
    size_t n = 0;
    for (const bool r : released_) n += r;
    return n;
  }
  TestArena& metadata() { return arena_; }

  int fail_take_in = -1;  // counts down; fails at zero
  // At each call from the list, which must hold no lock of its own then; at some of them again.
  std::function<void()> on_call, on_release, on_reused;
  Placement last_placement;
  std::set<Span*> live_spans;
  std::vector<void*> bad_frees;
  bool refuse_release = false;
  bool short_spans = false;      // else full ones, whatever is asked for: most tests count in those
  bool spare_hugepages = false;  // all that is not short of memory
  size_t surveyed = 0;           // native pages
  size_t take_calls = 0, give_calls = 0, release_calls = 0, reused_calls = 0;
  size_t isolation_calls = 0;
  size_t reused_pages = 0;  // that NoteReused told of

 private:
  size_t FindFree(size_t pages) const {
    size_t run = 0;
    for (size_t p = 0; p < taken_.size(); ++p) {
      run = taken_[p] ? 0 : run + 1;
      if (run == pages) return p + 1 - pages;
    }
    return taken_.size();
  }

  TestArena arena_;
  SpanPool pool_{arena_.arena()};
  char* memory_;
  PageMap page_map_;
  std::vector<bool> taken_;
  std::vector<PageEntry> entries_;
  std::vector<Span*> spans_;
  std::vector<bool> released_;
  Lock isolation_lock_{LockRank::kControl};
};

using TestCentral = CentralFreeList<FakeSource>;

}  // namespace strata::test
