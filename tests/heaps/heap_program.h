// A random program on a composed heap, driven by bytes (a fuzzer's, or a seed's): blocks are
// allocated, aligned, resized, moved and freed, with a model of what they hold beside them and the
// Check layer spliced in on top, which knows where they lie.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../hugepage/program_bytes.h"
#include "strata/layers/tool/check.h"

namespace strata::test {

template <class Core>
class HeapProgram {
  using Checked = typename layers::Check::On<Core>;

 public:
  HeapProgram(Checked& heap, ProgramBytes bytes) : heap_(heap), bytes_(bytes) {}

  void Run() {
    while (!bytes_.done()) Step();
    while (!live_.empty()) Free(live_.size() - 1);
  }

 private:
  struct Block {
    unsigned char* p;
    size_t size;
    unsigned char pattern;
  };

  static void Require(bool fine) {
    if (!fine) abort();
  }

  void Step() {
    const uint8_t choice = bytes_.Byte();
    if (live_.empty() || choice < 110) return Take(choice);
    const size_t which = bytes_.Below(live_.size());
    if (choice < 200) return Free(which);
    Resize(live_[which]);
  }

  // Mostly small, some of pages, a few larger than any limit for mappings.
  size_t Size() {
    const uint8_t kind = bytes_.Byte();
    if (kind < 180) return bytes_.Below(700);
    if (kind < 245) return bytes_.Below(20'000);
    return bytes_.Below(600'000);
  }

  void Take(uint8_t choice) {
    if (live_.size() == 500) return Free(0);
    const size_t size = Size();
    size_t align = Core::alignment;
    if (choice < 12) align = size_t{16} << bytes_.Below(10);
    void* p = align == Core::alignment ? heap_.allocate(size) : heap_.allocate(size, align);
    Require(p != nullptr && reinterpret_cast<uintptr_t>(p) % align == 0);
    Require(heap_.size_of(p) >= size);
    Block b{static_cast<unsigned char*>(p), size, bytes_.Byte()};
    memset(b.p, b.pattern, size);
    live_.push_back(b);
  }

  static bool Holds(const Block& b, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      if (b.p[i] != b.pattern) return false;
    }
    return true;
  }

  void Free(size_t which) {
    const Block b = live_[which];
    live_[which] = live_.back();
    live_.pop_back();
    Require(Holds(b, b.size));
    heap_.deallocate(b.p);
  }

  void Resize(Block& b) {
    const size_t size = Size(), kept = size < b.size ? size : b.size;
    if constexpr (layers::ResizableHeap<Core>) {
      if (heap_.resize(b.p, size)) return Resized(b, b.p, size, kept);
    }
    if constexpr (layers::RemappingHeap<Core>) {
      if (void* to = heap_.remap(b.p, size)) return Resized(b, to, size, kept);
    }
    Require(Holds(b, b.size));  // a refusal has changed nothing
  }
  void Resized(Block& b, void* to, size_t size, size_t kept) {
    b.p = static_cast<unsigned char*>(to);
    Require(Holds(b, kept) && heap_.size_of(to) >= size);
    memset(b.p, b.pattern, size);
    b.size = size;
  }

  Checked& heap_;
  ProgramBytes bytes_;
  std::vector<Block> live_;
};

// The program of these bytes on a heap of its own.
template <class Core>
void RunHeapProgram(ProgramBytes bytes) {
  layers::Check::On<Core> heap;
  HeapProgram<Core>(heap, bytes).Run();
}

}  // namespace strata::test
