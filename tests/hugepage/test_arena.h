// Metadata memory for tests: from the test's own heap, given back at the end of the test, failing
// on demand.
#pragma once

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/metadata_arena.h"

namespace strata::test {

// One at a time exists, because the arena's map function has no state.
class TestArena {
 public:
  TestArena() { current = this; }
  ~TestArena() {
    for (void* p : blocks_) free(p);
    current = nullptr;
  }
  TestArena(const TestArena&) = delete;
  TestArena& operator=(const TestArena&) = delete;

  MetadataArena& arena() { return arena_; }
  bool fail = false;

 private:
  static void* Map(size_t bytes) {
    if (current->fail) return nullptr;
    void* p = aligned_alloc(kNativePageSize, RoundUp(bytes, kNativePageSize));
    STRATA_CHECK(p != nullptr);
    memset(p, 0, bytes);
    current->blocks_.push_back(p);
    return p;
  }

  static inline TestArena* current = nullptr;
  std::vector<void*> blocks_;
  MetadataArena arena_{&Map};
};

}  // namespace strata::test
