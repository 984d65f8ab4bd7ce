// A random program against any heap, with a simple model beside it: blocks keep what was written in
// them, are aligned, and do not overlap (which the patterns show).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "strata/layers/heap.h"

namespace strata::layers {

struct ModelBlock {
  unsigned char* p;
  size_t size;
  unsigned char pattern;
};

inline void Fill(const ModelBlock& b) { memset(b.p, b.pattern, b.size); }
inline bool Intact(const ModelBlock& b) {
  for (size_t i = 0; i < b.size; ++i) {
    if (b.p[i] != b.pattern) return false;
  }
  return true;
}

// `size_of_step` draws the sizes. Everything is given back at the end.
template <Heap H, class Sizes>
void RunModel(H& heap, int steps, unsigned seed, Sizes draw_size) {
  std::mt19937 random(seed);
  std::vector<ModelBlock> live;
  for (int i = 0; i < steps; ++i) {
    // Grows to some hundred blocks, shrinks, and so on.
    const bool growing = (i / 700) % 2 == 0;
    const bool take = live.empty() || random() % 100 < (growing ? 65u : 35u);
    if (take) {
      ModelBlock b{nullptr, draw_size(random), static_cast<unsigned char>(random())};
      b.p = static_cast<unsigned char*>(heap.allocate(b.size));
      ASSERT_NE(b.p, nullptr) << b.size;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(b.p) % H::alignment, 0u);
      if constexpr (SizedHeap<H>) {
        ASSERT_GE(heap.size_of(b.p), b.size);
      }
      Fill(b);
      live.push_back(b);
    } else {
      const size_t at = random() % live.size();
      ASSERT_TRUE(Intact(live[at])) << "step " << i << ", size " << live[at].size;
      if constexpr (SizedHeap<H>) {
        if (random() % 2 == 0) {
          heap.deallocate(live[at].p);
        } else {
          heap.deallocate(live[at].p, live[at].size);
        }
      } else {
        heap.deallocate(live[at].p, live[at].size);
      }
      live[at] = live.back();
      live.pop_back();
    }
  }
  for (const ModelBlock& b : live) {
    ASSERT_TRUE(Intact(b));
    heap.deallocate(b.p, b.size);
  }
}

inline size_t MixedSize(std::mt19937& random) {
  const auto r = random();
  return r % 50 == 0 ? (r >> 8) % 60'000 : (r >> 8) % 500;
}

}  // namespace strata::layers
