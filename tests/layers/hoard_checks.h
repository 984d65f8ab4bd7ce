// What Hoard's tests share: a source that counts what it has given out, a processor number that the
// test sets, and a check of everything that must hold of a Hoard between two calls.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <set>

#include "strata/layers/hoard.h"

namespace strata::layers {

template <size_t kUnit>
class CountingSource {
 public:
  static constexpr size_t alignment = kUnit;
  static constexpr bool thread_safe = true;

  ~CountingSource() { EXPECT_EQ(held_, 0u) << "not all came back"; }

  void* allocate(size_t size) {
    if (fail_) return nullptr;
    void* p = aligned_alloc(kUnit, RoundUp(size, kUnit));
    if (p != nullptr) held_ += size;
    return p;
  }
  void deallocate(void* p, size_t size) {
    held_ -= size;
    free(p);
  }

  size_t held() const { return held_; }
  void set_fail(bool fail) { fail_ = fail; }

 private:
  std::atomic<size_t> held_{0};
  bool fail_ = false;
};

// Who is asking, so that one thread plays many.
struct PlayedProcessor {
  static constexpr bool exclusive = true;
  static inline thread_local size_t who = 0;
  static size_t index() { return who; }
};

// With every lock free. The numbers agree, each superblock is in one bin, which owns it, its free
// objects are its own and different, and every processor's bin keeps the invariant.
template <class H>
void ExpectSound(H& heap) {
  std::set<const void*> seen;
  heap.VisitBins([&](auto& bin, size_t place, size_t c) {
    size_t used = 0, capacity = 0, emptiest = SIZE_MAX, fullest = 0;
    bin.groups.Visit([&](const auto& s) {
      EXPECT_TRUE(seen.insert(&s).second) << "a superblock on two lists";
      EXPECT_EQ(s.owner(), &bin);
      EXPECT_EQ(s.size_class(), c);
      used += s.used();
      capacity += s.capacity();
      if (s.part() < 8) {
        emptiest = std::min<size_t>(emptiest, s.part());
        fullest = std::max<size_t>(fullest, s.part());
      }
      if (bin.global) {
        EXPECT_GT(s.used(), 0u) << "an empty superblock was kept";
      }
      std::set<const void*> free;
      s.VisitFree([&](const void* p) {
        EXPECT_EQ(AlignedRun<H::kSuperblock>::RecordOf(p), static_cast<const void*>(&s));
        EXPECT_TRUE(free.insert(p).second) << "an object free twice";
      });
      EXPECT_EQ(free.size() + s.used(), s.cut());
      EXPECT_LE(s.cut(), s.capacity());
    });
    EXPECT_EQ(bin.used, used) << "u of bin " << place << ", class " << c;
    EXPECT_EQ(bin.capacity, capacity) << "a of bin " << place << ", class " << c;
    if (emptiest != SIZE_MAX) {
      EXPECT_EQ(bin.groups.Emptiest()->part(), emptiest);
      EXPECT_EQ(bin.groups.Fullest()->part(), fullest);
    }
    if (!bin.global && capacity != 0) {
      EXPECT_FALSE(bin.TooEmpty(heap.thresholds(), bin.groups.Any()->capacity()));
    }
  });
}

}  // namespace strata::layers
