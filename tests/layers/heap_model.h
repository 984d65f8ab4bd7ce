// A random program against any heap, with a simple model beside it: blocks keep what was written in
// them, are aligned, and do not overlap (which the patterns show).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

// The same with all that the heap offers: blocks that are aligned, that grow and shrink where they
// lie, and that move. Sizes are told at every other free, and must fit.
template <SizedHeap H, class Sizes>
void RunFullModel(H& heap, int steps, unsigned seed, Sizes draw_size) {
  std::mt19937 random(seed);
  std::vector<ModelBlock> live;
  const auto begin = [&] {
    ModelBlock b{nullptr, draw_size(random), static_cast<unsigned char>(random())};
    size_t align = H::alignment;
    void* p = nullptr;
    if constexpr (AlignedHeap<H>) {
      if (random() % 2 == 0) {
        align = size_t{1} << random() % 14;
        p = heap.allocate(b.size, align);
      }
    }
    if (p == nullptr) p = heap.allocate(b.size);
    b.p = static_cast<unsigned char*>(p);
    ASSERT_NE(b.p, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(b.p) % align, 0u);
    ASSERT_GE(heap.size_of(b.p), b.size);
    if constexpr (ZeroKnowingHeap<H>) {
      if (heap.reads_zero(b.p)) {
        ASSERT_TRUE(Intact({b.p, b.size, 0}));
      }
    }
    Fill(b);
    live.push_back(b);
  };
  const auto change = [&](ModelBlock& b) {
    const size_t size = draw_size(random), kept = std::min(size, b.size);
    unsigned char* to = nullptr;
    if constexpr (ResizableHeap<H>) {
      if (heap.resize(b.p, size)) to = b.p;
    }
    if constexpr (RemappingHeap<H>) {
      if (to == nullptr) to = static_cast<unsigned char*>(heap.remap(b.p, size));
    }
    if (to == nullptr) return;
    b.p = to;
    ASSERT_GE(heap.size_of(to), size);
    ASSERT_TRUE(Intact({to, kept, b.pattern}));
    b.size = size;
    Fill(b);
  };
  const auto end = [&](size_t at) {
    ASSERT_TRUE(Intact(live[at]));
    if (random() % 2 == 0) {
      heap.deallocate(live[at].p);
    } else {
      heap.deallocate(live[at].p, live[at].size);
    }
    live[at] = live.back();
    live.pop_back();
  };
  for (int i = 0; i < steps; ++i) {
    const bool growing = (i / 700) % 2 == 0;
    const unsigned dice = random() % 100;
    if (live.empty() || dice < (growing ? 50u : 25u)) {
      begin();
    } else if (dice < 75) {
      change(live[random() % live.size()]);
    } else {
      end(random() % live.size());
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  while (!live.empty()) end(live.size() - 1);
}

inline size_t MixedSize(std::mt19937& random) {
  const auto r = random();
  return r % 50 == 0 ? (r >> 8) % 60'000 : (r >> 8) % 500;
}

}  // namespace strata::layers
