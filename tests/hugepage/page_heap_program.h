// An instruction program for PageHeap over the fake kernel: random takes, gives, resizes, releases,
// ticks and failures, also in the middle of releases, rebuilds and looks at the limit, against a
// model of the runs handed out. After each instruction the heap's numbers must add up and agree
// with the model and with the kernel. A violation ends the process.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "hugepage/page_heap.h"
#include "native_pages.h"
#include "os/fake_kernel.h"
#include "program_bytes.h"
#include "test_arena.h"

namespace strata::test {

class PageHeapProgram {
 public:
  explicit PageHeapProgram(ProgramBytes bytes) : bytes_(bytes) {
    kernel_.on_release = kernel_.on_collapse = kernel_.on_populate = kernel_.on_headroom =
        kernel_.on_move = kernel_.on_nonzero = [this] { Interrupt(); };
    const unsigned kind = bytes_.Byte();
    kernel_.refuse_populate = kind % 4 == 0;
    kernel_.tells_resident = kind / 4 % 2 == 0;
    kernel_.frees_zero_pages = kind / 8 % 2 == 0;
    heap_.SetRebuildTime({200'000'000, 400'000'000, 10'000'000});
    if (bytes_.Byte() % 4 == 0) kernel_.Occupy({HugePageId(40), HugePages(9)});
  }

  void Run() {
    while (!bytes_.done()) {
      Step();
      Check();
    }
    Finish();
  }

  size_t steps() const { return steps_; }
  size_t interrupts() const { return interrupts_; }

 private:
  struct Taken {
    Pages length;
    uint32_t tag;
    std::map<size_t, uint32_t> written;  // native page -> tag
    std::vector<NativeRange> gone;
  };
  using Runs = std::map<size_t, Taken>;  // by first page

  void Step() {
    ++steps_;
    kernel_.Advance(bytes_.Below(64));
    switch (bytes_.Below(26)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        return Take();
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        return Give();
      case 14:
        return Grow();
      case 15:
        return Shrink();
      case 16:
        return ReleaseInUse();
      case 17:
        return Reuse();
      case 18:
        heap_.ReleaseNow(bytes_.Below(64) << 18);
        return;
      case 19:
      case 20:
        return Tick();
      case 21:
        kernel_.Advance(bytes_.Below(8000));
        return;
      case 22:
        return Disturb();
      case 23:
        heap_.PopulateAhead();
        return;
      case 24:
        return Move();
      default:
        return TakeBatch();
    }
  }

  // Other threads run while the heap has dropped its lock.
  void Interrupt() {
    if (depth_ > 0 || bytes_.done()) return;
    ++depth_;
    for (size_t n = bytes_.Below(4); n > 0; --n) {
      ++interrupts_;
      switch (bytes_.Below(9)) {
        case 0:
        case 1:
          Take();
          break;
        case 2:
        case 3:
          Give();
          break;
        case 4:
          Grow();
          break;
        case 5:
          Move();
          break;
        case 6:
          if (!ticks_) Tick();
          break;
        case 7:
          heap_.ReleaseNow(bytes_.Below(64) << 18);
          break;
        default:
          Shrink();
      }
    }
    --depth_;
  }

  // By one thread.
  void Tick() {
    ticks_ = true;
    kernel_.Advance(1000);
    heap_.Tick(bytes_.Byte() % 2 == 0 ? CallRate::kIdle : CallRate::kBusy, PickProgram());
    ticks_ = false;
  }

  Pages PickLength() {
    switch (bytes_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return Pages(1);
      case 6:
      case 7:
      case 8:
        return Pages(1 + bytes_.Below(8));
      case 9:
      case 10:
        return Pages(1 + bytes_.Below(128));
      case 11:
        return Pages(129 + bytes_.Below(128));
      case 12:
      case 13:
        return Pages(257 + bytes_.Below(1200));
      case 14:
        return PagesOf(HugePages(1 + bytes_.Below(8)));
      default:
        return Pages(1 + bytes_.Below(20000));
    }
  }

  void Take() { TakeOne(PickLength()); }
  void TakeBatch() {
    const Pages n = PickLength();
    for (size_t i = bytes_.Below(40); i > 0; --i) TakeOne(n);
  }

  void TakeOne(Pages n) {
    PageRequest r{n};
    if (bytes_.Byte() % 2 == 0) r.placement.lifetime = LifetimeClass::kLong;
    if (bytes_.Below(8) == 0) r.align = Pages(size_t{1} << bytes_.Below(12));
    const PageRun run = heap_.Take(r);
    if (run.range.empty()) return;
    STRATA_CHECK(run.range.length == n);
    const size_t first = run.range.first.raw();
    STRATA_CHECK(first % r.align.raw() == 0);
    const auto next = runs_.lower_bound(first);
    STRATA_CHECK(next == runs_.end() || first + n.raw() <= next->first);
    STRATA_CHECK(next == runs_.begin() ||
                 std::prev(next)->first + std::prev(next)->second.length.raw() <= first);
    const size_t native = first * kNativePerPage, natives = n.raw() * kNativePerPage;
    const size_t stride = natives > 1024 ? 61 : 1;
    if (run.zeroed) {
      for (size_t i = 0; i < natives; i += stride) STRATA_CHECK(kernel_.Read(native + i) == 0);
    }
    Taken t{n, ++last_tag_, {}, {}};
    const size_t touch = bytes_.Below(3);  // nothing, the ends, or all over
    if (touch >= 1) {
      Write(&t, native);
      Write(&t, native + natives - 1);
    }
    if (touch == 2) {
      for (size_t i = 0; i < natives; i += stride) Write(&t, native + i);
    }
    live_ += n.raw();
    runs_.emplace(first, std::move(t));
  }

  void Write(Taken* t, size_t native) {
    kernel_.Write(native, t->tag);
    t->written[native] = t->tag;
  }

  Runs::iterator Pick() {
    if (runs_.empty()) return runs_.end();
    auto it = runs_.lower_bound(bytes_.Below(1 << 19));
    if (it == runs_.end()) it = runs_.begin();
    return it->first == busy_ || it->first == target_ ? runs_.end() : it;
  }

  void Verify(const Taken& t) const {
    for (const auto& [native, tag] : t.written) STRATA_CHECK(kernel_.Read(native) == tag);
  }

  void Give() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    Verify(it->second);
    const PageRange r{PageId(it->first), it->second.length};
    live_ -= r.length.raw();
    runs_.erase(it);
    heap_.Give(r);
  }

  void Grow() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    const PageRange r{PageId(it->first), it->second.length};
    const Pages longer = r.length + Pages(bytes_.Below(600));
    const size_t busy = std::exchange(busy_, it->first);
    const bool grown = heap_.TryGrow(r, longer);
    busy_ = busy;
    if (!grown) return;
    const auto next = std::next(it);
    STRATA_CHECK(next == runs_.end() || (r.first + longer).raw() <= next->first);
    live_ += (longer - r.length).raw();
    it->second.length = longer;
  }

  // As realloc does: the start of one run goes into another.
  void Move() {
    const auto from = Pick(), to = Pick();
    if (from == runs_.end() || to == runs_.end() || from == to || target_ != kNone) return;
    Verify(from->second);
    const PageRange source{PageId(from->first), from->second.length};
    const PageRange target{PageId(to->first), to->second.length};
    kernel_.most_moved = HugePages(bytes_.Below(6) == 0 ? bytes_.Below(4) : window_.raw());
    const size_t busy = std::exchange(busy_, from->first);
    target_ = to->first;
    heap_.lock().Acquire();
    const Pages moved = heap_.MoveHolding(source, target);
    heap_.lock().Release();
    busy_ = busy;
    target_ = kNone;
    STRATA_CHECK(moved <= source.length && moved <= target.length);
    live_ -= moved.raw();
    NoteMoved(from->second, source.first, to->second, target.first, moved);
    Taken rest = std::move(from->second);
    rest.length -= moved;
    runs_.erase(from);
    if (rest.length != Pages(0)) runs_.emplace((source.first + moved).raw(), std::move(rest));
  }

  static void NoteMoved(Taken& from, PageId source, Taken& to, PageId target, Pages moved) {
    const auto native = [](PageId p) { return p.raw() * kNativePerPage; };
    to.written.erase(to.written.lower_bound(native(target)),
                     to.written.lower_bound(native(target + moved)));
    const auto end = from.written.lower_bound(native(source + moved));
    for (auto it = from.written.begin(); it != end; it = from.written.erase(it))
      to.written[it->first - native(source) + native(target)] = it->second;
    std::erase_if(from.gone, [&](NativeRange g) { return g.offset < OffsetOf(source + moved); });
  }

  void Shrink() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    Taken& t = it->second;
    const PageRange r{PageId(it->first), t.length};
    const Pages shorter(1 + bytes_.Below(t.length.raw()));
    Verify(t);
    live_ -= (r.length - shorter).raw();
    t.length = shorter;
    const size_t end = (r.first + shorter).raw() * kNativePerPage;
    t.written.erase(t.written.lower_bound(end), t.written.end());
    std::erase_if(t.gone,
                  [&](NativeRange g) { return (g.offset + g.bytes) >> kNativePageShift > end; });
    heap_.Shrink(r, shorter);
  }

  Program PickProgram() { return static_cast<Program>(bytes_.Below(3)); }

  void ReleaseInUse() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    Taken& t = it->second;
    const size_t natives = t.length.raw() * kNativePerPage;
    std::vector<NativeRange> ranges;
    for (size_t at = bytes_.Below(natives), i = 0; at < natives && i < 5; ++i) {
      const size_t n = std::min(natives - at, 1 + bytes_.Below(4));
      const size_t native = it->first * kNativePerPage + at;
      ranges.push_back({native << kNativePageShift, n << kNativePageShift});
      t.written.erase(t.written.lower_bound(native), t.written.lower_bound(native + n));
      t.gone.push_back(ranges.back());
      at += n + 1 + bytes_.Below(3);
    }
    const size_t busy = std::exchange(busy_, it->first);
    heap_.ReleaseInUse(ranges.data(), ranges.size(), PickProgram());
    busy_ = busy;
  }

  void Reuse() {
    const auto it = Pick();
    if (it == runs_.end() || it->second.gone.empty()) return;
    const NativeRange r = it->second.gone.back();
    it->second.gone.pop_back();
    const size_t busy = std::exchange(busy_, it->first);
    const std::vector<NativePages> pages = AsPages(r);
    heap_.NoteReused(pages.data(), pages.size());
    busy_ = busy;
    Write(&it->second, r.offset >> kNativePageShift);
  }

  void Disturb() {
    switch (bytes_.Below(6)) {
      case 0:
        kernel_.fail_map_in = static_cast<int>(bytes_.Below(3));
        break;
      case 1:
        kernel_.fail_release_in = static_cast<int>(bytes_.Below(6));
        break;
      case 2:
        kernel_.fail_collapse_in = static_cast<int>(bytes_.Below(2));
        break;
      case 3:
        hard_limit_ = bytes_.Below(3) == 0 ? 0 : (bytes_.Below(512) + 8) << kHugePageShift;
        heap_.SetHardLimit(hard_limit_);
        break;
      case 4:
        kernel_.soft_limit = bytes_.Below(3) == 0 ? 0 : (bytes_.Below(256) + 1) << kHugePageShift;
        heap_.CheckSoftLimit();
        break;
      default:
        meta_.fail = bytes_.Below(4) == 0;
        metadata_failed_ |= meta_.fail;
    }
  }

  void Check() {
    const PageHeapStats s = heap_.Stats();
    const size_t live = live_ << kPageShift;
    // What was backed before a limit was set may stay; it may not grow.
    STRATA_CHECK(hard_limit_ == 0 || s.backed <= std::max(hard_limit_, backed_));
    backed_ = s.backed;
    STRATA_CHECK(s.used == live && heap_.used() == Pages(live_));
    // Without metadata a large run keeps the tail that it could not donate.
    const size_t parts = s.filler.used + s.large + s.region.used;
    STRATA_CHECK(metadata_failed_ ? parts >= live : parts == live);
    STRATA_CHECK(s.free_backed ==
                 s.filler.free + (s.cache.hugepages << kHugePageShift) + s.region.free);
    STRATA_CHECK(s.filler.used + s.filler.free + s.filler.released == s.filler.hugepages
                                                                          << kHugePageShift);
    STRATA_CHECK(s.region.used + s.region.free + s.region.released == s.region.regions << 30);
    STRATA_CHECK(s.allocator.mapped == BytesOf(kernel_.mapped()));
    STRATA_CHECK(s.allocator.mapped ==
                 s.allocator.free + s.large + (s.region.regions << 30) +
                     ((s.filler.hugepages + s.cache.hugepages) << kHugePageShift));
    // Nothing that the heap says it gave back is still held.
    if (steps_ % 4 == 0) {
      STRATA_CHECK(kernel_.physical_bytes() <= parts - s.filler.in_use_released + s.free_backed);
    }
    if (steps_ % 16 == 0) CheckHugePages();
    if (steps_ % 64 == 0) {
      for (const auto& [first, t] : runs_) Verify(t);
    }
  }

  void CheckHugePages() {
    std::map<size_t, size_t> used;  // pages by hugepage
    for (const auto& [first, t] : runs_) {
      for (size_t p = first; p < first + t.length.raw();) {
        const size_t end =
            std::min((p / kPagesPerHugePage + 1) * kPagesPerHugePage, first + t.length.raw());
        used[p / kPagesPerHugePage] += end - p;
        p = end;
      }
    }
    size_t seen = 0, last = 0;
    heap_.VisitHugePages([&](HugePageId h, size_t in_use, size_t released, char state, uint32_t) {
      STRATA_CHECK(seen++ == 0 || h.raw() > last);
      last = h.raw();
      const auto it = used.find(h.raw());
      const size_t expected = it == used.end() ? 0 : it->second;
      STRATA_CHECK(in_use == expected || (state == 'L' && metadata_failed_));
      const bool gave_back = state == 'p' || state == 'x' || state == 'b';
      STRATA_CHECK(in_use + released <= kPagesPerHugePage || gave_back);
      if (state == 'u') STRATA_CHECK(!kernel_.Present(h.raw() * kNativePerHugePage));
    });
    STRATA_CHECK(seen == kernel_.mapped().raw());
  }

  // Everything comes back, and then nothing is left with the kernel.
  void Finish() {
    kernel_.on_release = kernel_.on_collapse = kernel_.on_populate = kernel_.on_headroom =
        kernel_.on_move = kernel_.on_nonzero = nullptr;
    kernel_.fail_map_in = kernel_.fail_release_in = -1;
    meta_.fail = false;
    while (!runs_.empty()) {
      const auto it = runs_.begin();
      Verify(it->second);
      heap_.Give({PageId(it->first), it->second.length});
      runs_.erase(it);
    }
    live_ = 0;
    heap_.ReleaseNow(~size_t{0} >> 1);
    Check();
    STRATA_CHECK(heap_.used() == Pages(0) && heap_.free_backed() == Pages(0));
    STRATA_CHECK(kernel_.physical_bytes() == 0 && kernel_.resident_bytes() == 0);
    STRATA_CHECK(heap_.Stats().marked_no_huge == 0 && heap_.Stats().filler.hugepages == 0);
  }

  static constexpr size_t kNone = ~size_t{0};

  ProgramBytes bytes_;
  TestArena meta_;
  const HugePages window_{2048};
  FakeKernel kernel_{window_};
  PageHeap<FakeKernel> heap_{kernel_, meta_.arena(), PageHeapOptions{}};
  Runs runs_;
  size_t live_ = 0;        // pages
  size_t busy_ = kNone;    // the run that the page heap works on with its lock dropped
  size_t target_ = kNone;  // the one that it moves another into
  uint32_t last_tag_ = 0;
  int depth_ = 0;
  bool ticks_ = false;
  bool metadata_failed_ = false;
  size_t hard_limit_ = 0;  // bytes; 0: none
  size_t backed_ = 0;      // at the last check
  size_t steps_ = 0;
  size_t interrupts_ = 0;
};

}  // namespace strata::test
