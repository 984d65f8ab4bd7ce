// The same heap twice: composed from layers, and written by hand. test_zero_cost.py compares what
// the compilers make of the two.
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/class_header.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/zeroed.h"
#include "strata/layers/source/mmap.h"

using namespace strata::layers;

// Provided elsewhere, so that neither side can look into it.
struct Source {
  static constexpr size_t alignment = 16;
  static constexpr bool thread_safe = false;
  void* allocate(size_t size);
  void deallocate(void* p, size_t size);
};

using ComposedList = Stack<Fixed<48>, FreeList, Source>;

struct HandList {
  struct Block {
    Block* next;
  };
  Block* first = nullptr;
  [[no_unique_address]] Source source;

  void* allocate(size_t size) {
    if (size > 48) return nullptr;
    Block* b = first;
    if (b == nullptr) [[unlikely]]
      return source.allocate(48);
    first = b->next;
    return b;
  }
  void deallocate(void* p, size_t) { first = ::new (p) Block{first}; }
};

using Classes = PowersOfTwo<16, 1024>;
using ComposedBins = Stack<Bins<Classes, FreeList>, Source>;

struct HandBins {
  struct Block {
    Block* next;
  };
  [[no_unique_address]] Source source;
  Block* bins[Classes::count];

  void* allocate(size_t size) {
    if (size > 1024) [[unlikely]]
      return source.allocate(size);
    const size_t c = Log2((size - (size != 0)) | 15) - 3;
    Block* b = bins[c];
    if (b == nullptr) [[unlikely]]
      return source.allocate(size_t{16} << c);
    bins[c] = b->next;
    return b;
  }
  void deallocate(void* p, size_t size) {
    if (size > 1024) [[unlikely]]
      return source.deallocate(p, size);
    const size_t c = Log2((size - (size != 0)) | 15) - 3;
    bins[c] = ::new (p) Block{bins[c]};
  }
};

// Kingsley's fast paths; the calls out of them are the same two on both sides.
using Headed = PowersOfTwo<32, 65536>;
using ComposedKingsley = Stack<ClassHeader, Bins<Headed, FreeList>, Source>;

struct HandKingsley {
  static constexpr size_t kHeader = 16, kMark = size_t{0x5b10} << 48;
  struct Block {
    Block* next;
  };
  [[no_unique_address]] Source source;
  Block* bins[Headed::count];

  void* allocate(size_t size) {
    if (size <= 65536 - kHeader) [[likely]] {
      const size_t c = Log2((size + kHeader - 1) | 31) - 4;
      Block* b = bins[c];
      if (b != nullptr) [[likely]] {
        bins[c] = b->next;
        auto* p = reinterpret_cast<char*>(b) + kHeader;
        reinterpret_cast<size_t*>(p)[-1] = kMark + c;
        return p;
      }
    }
    return allocate_slow(size);
  }
  void deallocate(void* p) {
    const size_t c = static_cast<size_t*>(p)[-1] - kMark;
    if (c >= Headed::count) [[unlikely]]
      return deallocate_odd(p);
    bins[c] = ::new (static_cast<char*>(p) - kHeader) Block{bins[c]};
  }
  void* allocate_slow(size_t size);
  void deallocate_odd(void* p);
};

extern "C" {
void* composed_list_allocate(ComposedList& h, size_t n) { return h.allocate(n); }
void* hand_list_allocate(HandList& h, size_t n) { return h.allocate(n); }
void composed_list_deallocate(ComposedList& h, void* p, size_t n) { h.deallocate(p, n); }
void hand_list_deallocate(HandList& h, void* p, size_t n) { h.deallocate(p, n); }
void* composed_bins_allocate(ComposedBins& h, size_t n) { return h.allocate(n); }
void* hand_bins_allocate(HandBins& h, size_t n) { return h.allocate(n); }
void composed_bins_deallocate(ComposedBins& h, void* p, size_t n) { h.deallocate(p, n); }
void hand_bins_deallocate(HandBins& h, void* p, size_t n) { h.deallocate(p, n); }
void* composed_kingsley_allocate(ComposedKingsley& h, size_t n) { return h.allocate(n); }
void* hand_kingsley_allocate(HandKingsley& h, size_t n) { return h.allocate(n); }
void composed_kingsley_deallocate(ComposedKingsley& h, void* p) { h.deallocate(p); }
void hand_kingsley_deallocate(HandKingsley& h, void* p) { h.deallocate(p); }
}
