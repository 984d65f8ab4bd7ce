// A random program on LLAMA's heap, driven by bytes (a fuzzer's, or a seed's): objects of any size,
// alignment and predicted lifetime come and go while the clock moves, with a model of them beside.
// It finds objects that overlap, are too small, badly aligned or changed by others, and pages that
// break what LLAMA promises: an open page takes objects of one prediction only, no page has an
// object that was predicted to live longer than the page's rung, and an active page waits for some
// residual block.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "../hugepage/program_bytes.h"
#include "fake_outside.h"

namespace strata::test {

class LifetimeProgram {
 public:
  explicit LifetimeProgram(ProgramBytes bytes) : bytes_(bytes) {}

  void Run() {
    while (!bytes_.done()) Step();
    for (const auto& [at, object] : live_) CheckPattern(at, object);
    while (!live_.empty()) Free(live_.begin());
    fakes_.heap.Flush();
    const LifetimeStats stats = fakes_.heap.Stats();
    Require(stats.live_blocks == 0);
    for (const size_t n : stats.active_pages) Require(n == 0);
    for (const size_t n : stats.open_pages) Require(n <= 1);
    Require(stats.pages_opened == stats.pages_freed + stats.huge_pages());
  }

 private:
  struct Object {
    size_t size;
    Rung rung;
    unsigned char pattern;
  };
  using Objects = std::map<uintptr_t, Object>;

  static void Require(bool fine) {
    if (!fine) abort();
  }

  void Step() {
    const uint8_t choice = bytes_.Byte();
    if (live_.empty() || choice < 120) return Take();
    if (choice < 232) return Free(Pick());
    if (choice < 246) return FakeClock::Advance(uint64_t{1 + bytes_.Below(64)} << bytes_.Below(38));
    if (choice < 250) return fakes_.heap.Tick(FakeClock::now);
    if (choice < 252) return fakes_.heap.Flush();
    if (choice == 252) return FreeMany();
    CheckPages();
  }

  size_t Size() {
    const uint8_t kind = bytes_.Byte();
    if (kind < 130) return bytes_.Below(300);
    if (kind < 190) return bytes_.Below(9'000);
    if (kind < 240) return bytes_.Below(200'000);
    return bytes_.Below(5'000'000);
  }

  void Take() {
    if (live_.size() == 3000) return FreeMany();
    const size_t size = Size();
    const size_t align = bytes_.Byte() < 20 ? size_t{16} << bytes_.Below(19) : 16;
    // One of a few mostly, so that their pages fill up.
    const auto predicted =
        static_cast<LifetimeClass>(bytes_.Byte() < 200 ? 1 + bytes_.Below(3) : bytes_.Below(9));
    // Many of a kind at once, as programs do.
    for (size_t n = bytes_.Byte() < 40 ? 1 + bytes_.Below(200) : 1; n > 0; --n) {
      if (size > 100'000 && bytes_total_ > size_t{64} << 20) return;
      TakeOne(size, align, predicted);
    }
  }

  void TakeOne(size_t size, size_t align, LifetimeClass predicted) {
    void* p = fakes_.heap.Allocate(size, align, predicted);
    const auto at = reinterpret_cast<uintptr_t>(p);
    Require(p != nullptr && at % align == 0);
    Require(fakes_.heap.SizeOf(p) >= size);
    const auto next = live_.lower_bound(at);
    Require(next == live_.end() || at + std::max<size_t>(size, 1) <= next->first);
    Require(next == live_.begin() || std::prev(next)->first + std::prev(next)->second.size <= at);
    const Rung rung = RungOf(predicted);
    const HugeBlockPage& page = fakes_.heap.PageAt(p);
    Require(page.state == BlockPageState::kOpen ? page.rung == rung : page.rung >= rung);
    const Object object{size, rung, bytes_.Byte()};
    Paint(at, object);
    live_.emplace(at, object);
    bytes_total_ += size;
  }

  // The first and the last bytes; of small objects all.
  static void Paint(uintptr_t at, const Object& o) {
    const size_t end = std::min<size_t>(o.size, 256);
    memset(reinterpret_cast<void*>(at), o.pattern, end);
    memset(reinterpret_cast<void*>(at + o.size - end), o.pattern, end);
  }
  static void CheckPattern(uintptr_t at, const Object& o) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(at);
    const size_t end = std::min<size_t>(o.size, 256);
    for (size_t i = 0; i < end; ++i) {
      Require(bytes[i] == o.pattern && bytes[o.size - 1 - i] == o.pattern);
    }
  }

  Objects::iterator Pick() {
    const uintptr_t low = live_.begin()->first, high = std::prev(live_.end())->first;
    const double part = static_cast<double>(bytes_.Below(1 << 16)) / (1 << 16);
    return live_.lower_bound(low + static_cast<uintptr_t>(static_cast<double>(high - low) * part));
  }

  void Free(Objects::iterator which) {
    CheckPattern(which->first, which->second);
    bytes_total_ -= which->second.size;
    const auto p = reinterpret_cast<void*>(which->first);
    live_.erase(which);
    fakes_.heap.Deallocate(p);
  }
  // All but one in n.
  void FreeMany() {
    const size_t n = 2 + bytes_.Below(40);
    size_t i = bytes_.Below(n);
    for (auto it = live_.begin(); it != live_.end();) {
      const auto next = std::next(it);
      if (i++ % n != 0) Free(it);
      it = next;
    }
    CheckPages();
  }

  void CheckPages() {
    for (const auto& [at, object] : live_) {
      const HugeBlockPage& page = fakes_.heap.PageAt(reinterpret_cast<void*>(at));
      Require(page.rung >= object.rung && page.AnyResidual());
      const size_t block = (at - page.base) >> kBlockShift;
      Require(page.IsLive(block));
      if (page.state == BlockPageState::kOpen) Require(page.IsResidual(block));
      Require(fakes_.heap.SizeOf(reinterpret_cast<void*>(at)) >= object.size);
    }
    Require(fakes_.heap.Stats().huge_pages() <= fakes_.source.pages());
  }

  HeapOnFakes<2> fakes_;
  ProgramBytes bytes_;
  Objects live_;
  size_t bytes_total_ = 0;
};

}  // namespace strata::test
