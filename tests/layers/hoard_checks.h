// What Hoard's tests share: a source that counts what it has given out, a processor number that the
// test sets, and a check of everything that must hold of a Hoard between two calls.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <string>

#include "strata/layers/source/ref.h"
#include "strata/layers/thread/hoard.h"

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

// What is wrong with a heap all of whose locks are free, or "". The numbers agree, each superblock
// is in one bin, which owns it, its free objects are its own and different, and every processor's
// bin keeps the invariant.
template <class H>
std::string ProblemOf(H& heap) {
  std::string problem;
  const auto expect = [&](bool right, const char* what) {
    if (!right && problem.empty()) problem = what;
  };
  std::set<const void*> seen;
  heap.visit_bins([&](auto& bin, size_t, size_t c) {
    size_t used = 0, capacity = 0, emptiest = SIZE_MAX, fullest = 0;
    bin.groups.Visit([&](const auto& s) {
      expect(seen.insert(&s).second, "a superblock on two lists");
      expect(s.owner() == &bin, "a superblock in a bin that does not own it");
      expect(s.size_class() == c, "a superblock in a bin of another class");
      expect(s.used() > 0 || (bin.keeps_empty && bin.capacity == s.capacity()),
             "an empty superblock in a bin");
      used += s.used();
      capacity += s.capacity();
      if (s.part() < s.kParts) {
        emptiest = std::min<size_t>(emptiest, s.part());
        fullest = std::max<size_t>(fullest, s.part());
      }
      std::set<const void*> free;
      s.VisitFree([&](const void* p) {
        expect(static_cast<const void*>(AlignedRun<H::superblock>::RecordOf(p)) == &s,
               "a superblock with another's object");
        expect(free.insert(p).second, "an object free twice");
      });
      expect(free.size() + s.used() == s.cut() && s.cut() <= s.capacity(), "objects gone");
    });
    expect(bin.used == used, "a wrong u");
    expect(bin.capacity == capacity, "a wrong a");
    if (emptiest != SIZE_MAX) {
      expect(bin.groups.Emptiest()->part() == emptiest, "not the emptiest");
      expect(bin.groups.Fullest()->part() == fullest, "not the fullest");
    }
    if (!bin.global && capacity != 0) {
      expect(!bin.TooEmpty(heap.thresholds(), bin.groups.Any()->capacity()),
             "a processor's heap that is too empty");
    }
  });
  return problem;
}

template <class H>
void ExpectSound(H& heap) {
  EXPECT_EQ(ProblemOf(heap), "");
}

}  // namespace strata::layers
