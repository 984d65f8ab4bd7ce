// A source that knows in which of its blocks an address lies, as the process heap does: what a Reap
// needs to keep the freed blocks of each chunk apart.
#pragma once

#include <iterator>
#include <map>

#include "strata/layers/source/mmap.h"

namespace strata::layers {

struct KnowingMmap : Mmap {
  void* allocate(size_t size) {
    void* p = Mmap::allocate(size);
    if (p != nullptr) blocks[static_cast<char*>(p)] = size;
    return p;
  }
  void deallocate(void* p, size_t size) {
    blocks.erase(static_cast<char*>(p));
    Mmap::deallocate(p, size);
  }
  void* remap(void* p, size_t size, size_t wanted) {
    void* moved = Mmap::remap(p, size, wanted);
    if (moved == nullptr) return nullptr;
    blocks.erase(static_cast<char*>(p));
    blocks[static_cast<char*>(moved)] = wanted;
    return moved;
  }
  // Null while `knows` is not set.
  static void* start_of(const void* p) {
    auto next = blocks.upper_bound(const_cast<char*>(static_cast<const char*>(p)));
    if (!knows || next == blocks.begin()) return nullptr;
    const auto [start, size] = *std::prev(next);
    return p < start + size ? start : nullptr;
  }

  // Of all heaps of the test.
  static inline std::map<char*, size_t> blocks;
  static inline bool knows = true;
};

}  // namespace strata::layers
