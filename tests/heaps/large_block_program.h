// A random program of large blocks on a StrataHeap, with a model beside them: they keep apart and
// keep what they hold, and are counted as they are.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

#include "test_kernel.h"

namespace strata::test {

template <class Heap>
class LargeBlockProgram {
 public:
  LargeBlockProgram(Heap& heap, TestKernel& kernel, uint32_t seed)
      : heap_(heap), kernel_(kernel), random_(seed) {}

  std::mt19937& random() { return random_; }

  // Takes a block of the size that `draw` returns, gives one back or resizes one.
  template <class Draw>
  void Step(Draw draw) {
    const uint32_t what = random_() % 6;
    if (live_.empty() || (what < 3 && live_.size() < kMost)) {
      Take(draw());
    } else {
      const auto it = std::next(live_.begin(), static_cast<ptrdiff_t>(random_() % live_.size()));
      const size_t size = 1 + random_() % 2'000'000;
      ASSERT_TRUE(kernel_.Holds(it->first, it->second.size, it->second.tag));
      if (what < 5)
        Give(it);
      else
        Resize(it, size);
    }
    ASSERT_EQ(heap_.large().counts().requested, requested_);
    ASSERT_EQ(heap_.large().counts().blocks, live_.size());
  }

  void GiveAll() {
    while (!live_.empty()) {
      const auto it = live_.begin();
      EXPECT_TRUE(kernel_.Holds(it->first, it->second.size, it->second.tag));
      Give(it);
    }
  }

 private:
  static constexpr size_t kMost = 150;
  struct Block {
    size_t size;
    uint32_t tag;
  };
  using Live = std::map<char*, Block>;

  void Take(size_t size) {
    auto* at = static_cast<char*>(heap_.large().Take(size, 16).address);
    ASSERT_NE(at, nullptr);
    const auto next = live_.lower_bound(at);
    ASSERT_TRUE(next == live_.end() || at + size <= next->first);
    ASSERT_TRUE(next == live_.begin() ||
                std::prev(next)->first + std::prev(next)->second.size <= at);
    kernel_.Touch(at, size, ++tag_);
    live_[at] = {size, tag_};
    requested_ += size;
  }
  void Give(typename Live::iterator it) {
    heap_.large().Give(heap_.large().At(it->first));
    requested_ -= it->second.size;
    live_.erase(it);
  }
  void Resize(typename Live::iterator it, size_t size) {
    if (!heap_.large().Resize(heap_.large().At(it->first), size)) return;
    requested_ += size - it->second.size;
    it->second.size = size;
    kernel_.Touch(it->first, size, it->second.tag);
  }

  Heap& heap_;
  TestKernel& kernel_;
  std::mt19937 random_;
  Live live_;
  size_t requested_ = 0;
  uint32_t tag_ = 0;
};

}  // namespace strata::test
