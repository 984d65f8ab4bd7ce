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
    if (p != nullptr) blocks[static_cast<char*>(p)] = {size, knows};
    return p;
  }
  void deallocate(void* p, size_t size) {
    blocks.erase(static_cast<char*>(p));
    Mmap::deallocate(p, size);
  }
  void* remap(void* p, size_t size, size_t wanted) {
    void* moved = Mmap::remap(p, size, wanted);
    if (moved == nullptr) return nullptr;
    const bool known = blocks[static_cast<char*>(p)].known;
    blocks.erase(static_cast<char*>(p));
    blocks[static_cast<char*>(moved)] = {wanted, known};
    return moved;
  }
  // Null in those that it gave while `knows` was not set.
  static void* start_of(const void* p) {
    const Entry* found = Find(p);
    return found != nullptr && found->second.known ? found->first : nullptr;
  }
  // For the test, also of those.
  static void* BlockAround(const void* p) {
    const Entry* found = Find(p);
    return found == nullptr ? nullptr : found->first;
  }

  struct Block {
    size_t size;
    bool known;
  };
  // Of all heaps of the test.
  static inline std::map<char*, Block> blocks;
  static inline bool knows = true;

  // While it lives, the source knows nothing of what it gives, if `forgets`; it knows again
  // afterwards, whatever was set.
  struct Forgetting {
    explicit Forgetting(bool forgets = true) { knows = !forgets; }
    ~Forgetting() { knows = true; }
    Forgetting(const Forgetting&) = delete;
    Forgetting& operator=(const Forgetting&) = delete;
  };

 private:
  using Entry = std::map<char*, Block>::value_type;

  static const Entry* Find(const void* p) {
    auto next = blocks.upper_bound(const_cast<char*>(static_cast<const char*>(p)));
    if (next == blocks.begin()) return nullptr;
    const Entry& entry = *std::prev(next);
    return p < entry.first + entry.second.size ? &entry : nullptr;
  }
};

}  // namespace strata::layers
