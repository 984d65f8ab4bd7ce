// Check: an oracle that can be spliced in anywhere. It keeps a shadow of all that is out, and finds
// a block that overlaps another, is not aligned, comes back twice, comes back with another size, or
// was never given out; it fills what comes back, so that use after free shows. What it finds goes
// to a handler (by default one line on stderr, then abort). The shadow has memory of its own, so
// Check works inside a malloc replacement too. One thread at a time.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "strata/layers/heap.h"
#include "strata/raw_io.h"

namespace strata::layers {

using CheckHandler = void (*)(const char* what, const void* p);

[[noreturn]] inline void AbortOnCheck(const char* what, const void*) {
  constexpr char kBefore[] = "strata check: ";
  raw::Write(2, kBefore, sizeof(kBefore) - 1);
  raw::Write(2, what, strlen(what));
  raw::Write(2, "\n", 1);
  abort();
}

// Which units of kUnit bytes of the address space are in blocks, and how large each block is: an
// open hash table of units, by groups. A block begins at a multiple of kUnit and has all of its
// last unit.
template <size_t kUnit>
class Shadow {
 public:
  Shadow() = default;
  ~Shadow() { Unmap(groups_, capacity_); }
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // Bytes asked for by the block at p plus one; 0: no block begins here.
  size_t SizeAt(const void* p) const {
    const Group* g = Find(Unit(p) / kUnits);
    return g == nullptr || reinterpret_cast<uintptr_t>(p) % kUnit != 0 ? 0
                                                                       : g->size[Unit(p) % kUnits];
  }
  // False: some of it is in another block already. Nothing changes then.
  bool Add(const void* p, size_t size) {
    const uintptr_t first = Unit(p), end = EndUnit(p, size);
    for (uintptr_t u = first; u < end; ++u) {
      const Group* g = Find(u / kUnits);
      if (g != nullptr && g->used[u % kUnits]) return false;
    }
    for (uintptr_t u = first; u < end; ++u) {
      Group* g = FindOrMake(u / kUnits);
      if (g != nullptr) g->used[u % kUnits] = true;
    }
    if (Group* g = FindOrMake(first / kUnits)) g->size[first % kUnits] = size + 1;
    return true;
  }
  void Remove(const void* p, size_t size) {
    for (uintptr_t u = Unit(p); u < EndUnit(p, size); ++u) {
      if (Group* g = Find(u / kUnits)) g->used[u % kUnits] = false;
    }
    if (Group* g = Find(Unit(p) / kUnits)) g->size[Unit(p) % kUnits] = 0;
  }
  void Clear() {
    for (size_t i = 0; i < capacity_; ++i) groups_[i] = Group{};
    count_ = 0;
  }

 private:
  static constexpr size_t kUnits = 64;
  struct Group {
    uintptr_t key = 0;  // unit / kUnits; 0: free
    bool used[kUnits] = {};
    size_t size[kUnits] = {};
  };

  static uintptr_t Unit(const void* p) { return reinterpret_cast<uintptr_t>(p) / kUnit; }
  static uintptr_t EndUnit(const void* p, size_t size) {
    return (reinterpret_cast<uintptr_t>(p) + (size == 0 ? 1 : size) + kUnit - 1) / kUnit;
  }
  static size_t Hash(uintptr_t key) { return (key * 0x9e3779b97f4a7c15u) >> 20; }

  Group* Find(uintptr_t key) const {
    if (capacity_ == 0) return nullptr;
    for (size_t i = Hash(key) & (capacity_ - 1);; i = (i + 1) & (capacity_ - 1)) {
      if (groups_[i].key == key) return &groups_[i];
      if (groups_[i].key == 0) return nullptr;
    }
  }
  Group* FindOrMake(uintptr_t key) {
    if (Group* g = Find(key)) return g;
    if (count_ * 2 >= capacity_ && !Double()) return nullptr;
    Group& g = *Place(groups_, capacity_, key);
    g.key = key;
    ++count_;
    return &g;
  }
  static Group* Place(Group* groups, size_t capacity, uintptr_t key) {
    size_t i = Hash(key) & (capacity - 1);
    while (groups[i].key != 0) i = (i + 1) & (capacity - 1);
    return &groups[i];
  }
  bool Double() {
    const size_t capacity = capacity_ == 0 ? 256 : capacity_ * 2;
    void* raw = mmap(nullptr, capacity * sizeof(Group), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return false;
    auto* fresh = static_cast<Group*>(raw);  // zero bytes are empty groups
    for (size_t i = 0; i < capacity_; ++i) {
      if (groups_[i].key != 0) *Place(fresh, capacity, groups_[i].key) = groups_[i];
    }
    Unmap(groups_, capacity_);
    groups_ = fresh;
    capacity_ = capacity;
    return true;
  }
  static void Unmap(Group* groups, size_t capacity) {
    if (groups != nullptr) munmap(groups, capacity * sizeof(Group));
  }

  Group* groups_ = nullptr;
  size_t capacity_ = 0;  // a power of two, or 0
  size_t count_ = 0;
};

struct Check {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;
    static constexpr bool blocks_stand_alone = false;
    static constexpr unsigned char kFreed = 0xdf;

    using Through<Below>::Through;

    void set_handler(CheckHandler handler) { handler_ = handler; }

    void* allocate(size_t size) { return Note(this->next_.allocate(size), size, Below::alignment); }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return Note(this->next_.allocate(size, align), size, align);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      if (!this->next_.resize(p, size)) return false;
      Forget(p);
      return Note(p, size, Below::alignment) != nullptr;
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      void* to = this->next_.remap(p, size);
      if (to == nullptr) return nullptr;
      Forget(p);
      return Note(to, size, Below::alignment);
    }
    void deallocate(void* p, size_t size) {
      if (!Expect(p, size)) return;
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      const size_t known = shadow_.SizeAt(p);
      if (!Expect(p, known == 0 ? 0 : known - 1)) return;
      this->next_.deallocate(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      shadow_.Clear();
      this->next_.clear();
    }
    void forget() {
      shadow_.Clear();
      Through<Below>::forget();
    }

   private:
    void* Note(void* p, size_t size, size_t align) {
      if (p == nullptr) return nullptr;
      if (reinterpret_cast<uintptr_t>(p) % align != 0) handler_("a block not aligned", p);
      if (!shadow_.Add(p, size)) handler_("a block that overlaps another", p);
      return p;
    }
    void Forget(void* p) {
      const size_t known = shadow_.SizeAt(p);
      if (known == 0) return handler_("a block resized that was never given out", p);
      shadow_.Remove(p, known - 1);
    }
    // Whether the block may go down; else the handler was told, and came back.
    bool Expect(void* p, size_t size) {
      const size_t known = shadow_.SizeAt(p);
      if (known == 0) {
        handler_("a block given back twice, or never given out", p);
        return false;
      }
      const bool right = known == size + 1;
      if (!right) handler_("a block given back with another size", p);
      shadow_.Remove(p, known - 1);
      memset(p, kFreed, known - 1);
      if (!right) this->next_.deallocate(p, known - 1);
      return right;
    }

    CheckHandler handler_ = AbortOnCheck;
    // Blocks that lie behind a header's 8 bytes are no multiples of 16 (Bump's skew).
    static constexpr size_t kUnit =
        Below::alignment < kDefaultAlignment ? size_t{Below::alignment} : kDefaultAlignment;
    Shadow<kUnit> shadow_;
  };
};

}  // namespace strata::layers
