// An instruction program for CentralFreeList over FakeSource: random takes, gives, bad frees,
// ticks, releases (also with gives and takes in their midst) and failures, against a model of the
// objects handed out, each of which holds a tag. After each instruction the list's numbers must
// agree with the model and with the source. A violation ends the process.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "../hugepage/program_bytes.h"
#include "fake_source.h"

namespace strata::test {

class CentralProgram {
 public:
  explicit CentralProgram(ProgramBytes bytes)
      : bytes_(bytes), class_(PickClass()), info_(InfoOf(class_)) {
    if (bytes_.Byte() % 4 == 0) order_ = SpanOrder::kLastIn;
    list_.Init(class_, &source_, order_);
    SetTick();
    source_.on_release = [this] { Interrupt(); };
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
  size_t pages_released() const { return pages_released_; }
  size_t bad_frees() const { return expected_bad_; }

 private:
  // Every object count that matters: dense, sparse, one a span, objects across native pages.
  SizeClass PickClass() {
    constexpr size_t kSizes[] = {8,     16,    48,     144,    448,   1024,  1280,  2048,
                                 3072,  6144,  7168,   12288,  20352, 32768, 4096,  8192,
                                 16384, 65536, 131072, 262144, 64,    18304, 36000, 40000};
    return ClassOfSize(kSizes[bytes_.Byte() % std::size(kSizes)]);
  }

  void Step() {
    ++steps_;
    switch (bytes_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Take(1 + bytes_.Below(kMaxBatch));
      case 4:
      case 5:
      case 6:
      case 7:
        return Give(1 + bytes_.Below(kMaxBatch));
      case 8:
        return GiveSpanful();
      case 9:
        return BadFree();
      case 10:
      case 11:
        tick_ += static_cast<uint32_t>(bytes_.Below(4));
        return SetTick();
      case 12:
        return ReleaseIdle();
      case 13:
        list_.ReleaseEmpty(PickBefore());
        return;
      case 14:
        source_.fail_take_in = static_cast<int>(bytes_.Below(3));
        return;
      default:
        source_.metadata().fail = bytes_.Below(4) == 0;
    }
  }

  // A tick sees each span that holds objects, in the bucket of their number.
  void SetTick() {
    for (const Span* span : source_.live_spans) {
      if (span->allocated == 0) continue;
      const size_t width = std::bit_width(static_cast<size_t>(span->allocated));
      ++observed_[width >= kOccupancyBuckets ? 0 : kOccupancyBuckets - width];
    }
    list_.set_tick(tick_);
  }

  uint32_t PickBefore() {
    return bytes_.Below(4) == 0 ? UINT32_MAX : tick_ - std::min<uint32_t>(tick_, bytes_.Byte() % 8);
  }

  void Take(size_t n) {
    std::vector<void*> out(n, nullptr);
    const size_t spans_before = source_.live_spans.size();
    const size_t calls_before = source_.take_calls;
    const Span* fullest = Fullest();
    const size_t got = list_.Take(out.data(), n);
    STRATA_CHECK(got <= n);
    if (got < n)
      STRATA_CHECK(source_.take_calls > calls_before);  // fewer only when memory is short
    for (size_t i = 0; i < got; ++i) {
      auto* object = static_cast<char*>(out[i]);
      const size_t offset = reinterpret_cast<uintptr_t>(object) - source_.base();
      Span* span = source_.page_map().SpanOf(PageId(offset >> kPageShift));
      STRATA_CHECK(span != nullptr && span->size_class == class_);
      STRATA_CHECK(span->state == SpanState::kSmall);  // never out of a span being released
      STRATA_CHECK((offset - span->start_offset() - span->first()) % info_.size == 0);
      STRATA_CHECK(!source_.Released(object) && !source_.Released(object + info_.size - 1));
      STRATA_CHECK(live_.emplace(object, ++last_tag_).second);
      if (i == 0 && fullest != nullptr && order_ == SpanOrder::kFullestFirst) {
        // The first object comes from a span that is as full, by bit width, as any.
        STRATA_CHECK(span == fullest || source_.live_spans.size() > spans_before ||
                     WidthBefore(span) >= fullest_width_);
      }
      Write(object, last_tag_);
    }
  }

  // The fullest span by bit width, as it is before a take.
  const Span* Fullest() {
    const Span* best = nullptr;
    widths_.clear();
    for (Span* s : source_.live_spans) {
      const size_t width =
          std::min<size_t>(8, static_cast<size_t>(std::bit_width(size_t{s->allocated})));
      widths_[s] = width;
      if (s->allocated == s->objects || s->state != SpanState::kSmall) continue;
      if (best == nullptr || width > widths_[best]) best = s;
    }
    fullest_width_ = best == nullptr ? 0 : widths_[best];
    return best;
  }
  size_t WidthBefore(const Span* span) const {
    const auto it = widths_.find(span);
    return it == widths_.end() ? 0 : it->second;
  }

  void Write(char* object, uint32_t tag) {
    memcpy(object, &tag, sizeof(tag));
    if (info_.size >= 16) memcpy(object + info_.size - sizeof(tag), &tag, sizeof(tag));
  }
  void Verify(const char* object, uint32_t tag) const {
    STRATA_CHECK(memcmp(object, &tag, sizeof(tag)) == 0);
    if (info_.size >= 16)
      STRATA_CHECK(memcmp(object + info_.size - sizeof(tag), &tag, sizeof(tag)) == 0);
  }

  void Give(size_t n) {
    std::vector<void*> objects;
    for (; n > 0 && !live_.empty(); --n) {
      auto it = live_.lower_bound(reinterpret_cast<char*>(source_.base()) +
                                  bytes_.Below(1 << 24) * size_t{7} % (size_t{16} << 20));
      if (it == live_.end()) it = live_.begin();
      Verify(it->first, it->second);
      objects.push_back(it->first);
      live_.erase(it);
    }
    if (!objects.empty()) list_.Give(objects.data(), objects.size());
  }

  // All objects of one span, so that spans do come free.
  void GiveSpanful() {
    if (live_.empty()) return;
    auto it = live_.lower_bound(reinterpret_cast<char*>(source_.base()) +
                                (bytes_.Below(2048) << kPageShift));
    if (it == live_.end()) it = live_.begin();
    const Span* span = SpanOf(it->first);
    std::vector<void*> objects;
    for (auto at = live_.begin(); at != live_.end();) {
      if (SpanOf(at->first) != span) {
        ++at;
        continue;
      }
      Verify(at->first, at->second);
      objects.push_back(at->first);
      at = live_.erase(at);
    }
    for (size_t i = 0; i < objects.size(); i += kMaxBatch)
      list_.Give(&objects[i], std::min(kMaxBatch, objects.size() - i));
  }

  const Span* SpanOf(const char* object) {
    return source_.page_map().SpanOf(
        PageId((reinterpret_cast<uintptr_t>(object) - source_.base()) >> kPageShift));
  }

  // Frees that must change nothing: of a free object, of the middle of one, of a span's tail, of a
  // page with no span.
  void BadFree() {
    if (source_.live_spans.empty()) return;
    auto it = source_.live_spans.begin();
    std::advance(it, bytes_.Below(source_.live_spans.size()));
    const Span* span = *it;
    char* start = reinterpret_cast<char*>(source_.base()) + span->start_offset();
    char* bad = start + bytes_.Below(span->num_pages * kPageSize);
    if (live_.contains(bad)) return;  // a good one
    void* bad_then_good[2] = {bad, nullptr};
    size_t n = 1;
    if (!live_.empty() && bytes_.Byte() % 2 == 0) {
      bad_then_good[n++] = live_.begin()->first;
      live_.erase(live_.begin());
    }
    ++expected_bad_;
    list_.Give(bad_then_good, n);
    STRATA_CHECK(source_.bad_frees.size() == expected_bad_ && source_.bad_frees.back() == bad);
  }

  void ReleaseIdle() {
    const size_t limit = bytes_.Below(4) == 0 ? bytes_.Below(1 << 16) : SIZE_MAX;
    const size_t before = source_.ReleasedPages();
    reused_in_release_ = false;
    const size_t bytes = list_.ReleaseIdle(PickBefore(), limit, Program::kRests);
    if (!reused_in_release_)
      STRATA_CHECK(source_.ReleasedPages() == before + (bytes >> kNativePageShift));
    pages_released_ += bytes >> kNativePageShift;
  }

  // Other threads run while the list has dropped its lock for a release.
  void Interrupt() {
    if (depth_ > 0) return;
    ++depth_;
    for (size_t n = bytes_.Below(4); n > 0; --n) {
      ++interrupts_;
      reused_in_release_ = true;
      if (bytes_.Byte() % 2 == 0) {
        Take(1 + bytes_.Below(kMaxBatch));
      } else if (bytes_.Byte() % 2 == 0) {
        Give(1 + bytes_.Below(kMaxBatch));
      } else {
        GiveSpanful();
      }
    }
    --depth_;
  }

  void Check() {
    const CentralStats s = list_.Stats();
    STRATA_CHECK(s.objects_out == live_.size() && list_.objects_out() == live_.size());
    STRATA_CHECK(s.spans == source_.live_spans.size());
    STRATA_CHECK(s.objects_free == s.spans * info_.objects - live_.size());
    STRATA_CHECK(s.spans_taken == s.spans + source_.give_calls);
    STRATA_CHECK(s.spans_returned == source_.give_calls);
    uint64_t returned = 0;
    for (size_t b = 0; b < kOccupancyBuckets; ++b) {
      STRATA_CHECK(s.observed[b] == observed_[b]);
      returned += s.returned[b];
    }
    STRATA_CHECK(returned <= s.spans_returned);
    STRATA_CHECK(source_.bad_frees.size() == expected_bad_);
    std::map<const Span*, size_t> out;
    for (const auto& [object, tag] : live_) ++out[SpanOf(object)];
    size_t empty = 0;
    for (Span* span : source_.live_spans) {
      STRATA_CHECK(span->state == SpanState::kSmall);
      STRATA_CHECK(span->allocated == out[span]);
      size_t free = 0;
      for (size_t w = 0; w < span->bitmap_words; ++w)
        free += static_cast<size_t>(std::popcount(span->free_bits()[w]));
      STRATA_CHECK(free + span->allocated == span->objects);
      empty += span->allocated == 0;
    }
    // Few empty spans are kept; ones that emptied during a release wait for the next tick.
    if (interrupts_ == 0) STRATA_CHECK(empty * info_.pages * kPageSize <= 64 << 10);
    if (steps_ % 32 == 0) {
      for (const auto& [object, tag] : live_) Verify(object, tag);
    }
  }

  // Everything comes back, and then no span is left.
  void Finish() {
    source_.on_release = nullptr;
    for (const auto& [object, tag] : live_) Verify(object, tag);
    while (!live_.empty()) GiveSpanful();
    list_.ReleaseEmpty(UINT32_MAX);
    Check();
    STRATA_CHECK(source_.live_spans.empty() && source_.ReleasedPages() == 0);
  }

  ProgramBytes bytes_;
  FakeSource source_;
  TestCentral list_;
  const SizeClass class_;
  const ClassInfo& info_;
  std::map<char*, uint32_t> live_;  // object -> tag
  std::map<const Span*, size_t> widths_;
  size_t fullest_width_ = 0;
  uint32_t last_tag_ = 0;
  SpanOrder order_ = SpanOrder::kFullestFirst;
  uint64_t observed_[kOccupancyBuckets] = {};
  uint32_t tick_ = 1;
  int depth_ = 0;
  bool reused_in_release_ = false;
  size_t expected_bad_ = 0;
  size_t steps_ = 0;
  size_t interrupts_ = 0;
  size_t pages_released_ = 0;
};

}  // namespace strata::test
