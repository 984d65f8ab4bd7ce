// The same heap twice: composed from layers, and written by hand. test_zero_cost.py compares what
// the compilers make of the two.
#include <mutex>

#include "strata/layers.h"

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

// The bins of docs/layers.md.
using Quarters = Geometric<4096>;
using ComposedQuarters = Stack<Bins<Quarters, FreeList>, Source>;

struct HandQuarters {
  struct Block {
    Block* next;
  };
  [[no_unique_address]] Source source;
  Block* bins[Quarters::count];

  void* allocate(size_t size) {
    if (size > 4096) [[unlikely]]
      return source.allocate(size);
    const size_t c = Quarters::of(size);
    Block* b = bins[c];
    if (b == nullptr) [[unlikely]]
      return source.allocate(Quarters::size(c));
    bins[c] = b->next;
    return b;
  }
  void deallocate(void* p, size_t size) {
    if (size > 4096) [[unlikely]]
      return source.deallocate(p, size);
    const size_t c = Quarters::of(size);
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
    static_cast<size_t*>(p)[-1] = 0;  // or a second free would not be found
    bins[c] = ::new (static_cast<char*>(p) - kHeader) Block{bins[c]};
  }
  void* allocate_slow(size_t size);
  void deallocate_odd(void* p);
};

using ComposedLocked = Stack<Locked, Fixed<48>, FreeList, Source>;

struct HandLocked {
  HandList list;
  FutexLock lock;

  void* allocate(size_t size) {
    const std::lock_guard hold(lock);
    return list.allocate(size);
  }
  void deallocate(void* p, size_t size) {
    const std::lock_guard hold(lock);
    list.deallocate(p, size);
  }
};

using ComposedHeader = Stack<SizeHeader, Source>;

// Blocks may be aligned, so the start of what lies below is kept, too.
struct HandHeader {
  struct Header {
    size_t size;
    size_t offset;
  };
  [[no_unique_address]] Source source;

  void* allocate(size_t size) {
    if (size > PTRDIFF_MAX - sizeof(Header)) return nullptr;
    size += sizeof(Header);
    auto* header = static_cast<Header*>(source.allocate(size));
    if (header == nullptr) return nullptr;
    *header = {size, sizeof(Header)};
    return header + 1;
  }
  void deallocate(void* p) {
    const Header header = static_cast<Header*>(p)[-1];
    source.deallocate(static_cast<char*>(p) - header.offset, header.size);
  }
};

using ComposedCoalesce = Stack<Coalesce<65536>, Source>;

// Of the same blocks and trees, which are no layers.
struct HandCoalesce {
  using Block = TaggedBlock;
  struct Region {
    Region* next;
    Region* previous;
    size_t bytes;
    size_t first_tag;
  };
  [[no_unique_address]] Source source;
  Region* regions = nullptr;
  Block* wilderness = nullptr;
  Block* newest_end = nullptr;
  size_t held = 0;
  TreeFit tree;

  [[gnu::noinline]] void* allocate(size_t size) {
    if (size > PTRDIFF_MAX) return nullptr;
    const size_t bytes = Block::BytesFor(size);
    Block* b = tree.Take(bytes);
    if (b == nullptr) {
      if ((wilderness == nullptr || wilderness->size() < bytes) && !grow(bytes)) return nullptr;
      b = wilderness;
      wilderness = nullptr;
    }
    const size_t whole = b->size();
    if (whole - bytes < Block::kLeast) {
      b->SetInUse(whole, Block::Neighbour::kInUse);
    } else {
      Block* rest = b->At(static_cast<ptrdiff_t>(bytes));
      rest->SetFree(whole - bytes);
      b->SetInUse(bytes, Block::Neighbour::kInUse);
      keep(rest);
    }
    return b->payload();
  }
  [[gnu::noinline]] void deallocate(void* p) {
    Block* b = Block::Of(p);
    if (!b->in_use()) [[unlikely]]
      DieOfDeadBlock();
    size_t bytes = b->size();
    if (!b->previous_in_use()) {
      Block* before = b->Before();
      unkeep(before);
      bytes += before->size();
      b = before;
    }
    Block* after = b->At(static_cast<ptrdiff_t>(bytes));
    if (!after->in_use()) {
      unkeep(after);
      bytes += after->size();
    }
    b->SetFree(bytes);
    if (!b->After()->is_end() || b->After() == newest_end || !gave_back(b)) keep(b);
  }
  void keep(Block* b) {
    if (wilderness == nullptr && b->After() == newest_end) {
      wilderness = b;
    } else {
      tree.Add(b);
    }
  }
  void unkeep(Block* b) {
    if (b == wilderness) {
      wilderness = nullptr;
    } else {
      tree.Remove(b);
    }
  }
  bool grow(size_t bytes) {
    const size_t wanted = RoundUp(bytes + sizeof(Region) + Block::kUnit, 65536);
    void* raw = source.allocate(wanted);
    if (raw == nullptr) return false;
    held += wanted;
    if (wilderness != nullptr) {
      tree.Add(wilderness);
      wilderness = nullptr;
    }
    auto* r = ::new (raw) Region{regions, nullptr, wanted, 0};
    if (regions != nullptr) regions->previous = r;
    regions = r;
    newest_end = reinterpret_cast<Block*>(static_cast<char*>(raw) + wanted - Block::kUnit);
    newest_end->SetEnd(Block::Neighbour::kFree);
    newest_end->next = reinterpret_cast<Block*>(r);
    auto* first = reinterpret_cast<Block*>(r + 1);
    first->SetFree(wanted - sizeof(Region) - Block::kUnit);
    wilderness = first;
    return true;
  }
  bool gave_back(Block* b) {
    auto* r = reinterpret_cast<Region*>(b->After()->next);
    if (b != reinterpret_cast<Block*>(r + 1)) return false;
    r->previous->next = r->next;
    if (r->next != nullptr) r->next->previous = r->previous;
    held -= r->bytes;
    source.deallocate(r, r->bytes);
    return true;
  }
};

// Lea's malloc with the list of each small size in front of the coalescing heap.
using Small = TaggedSteps<520>;
using ComposedLea = Stack<Bins<Small, BoundedFreeList<32>>, Coalesce<65536>, Source>;

struct HandLea {
  struct Block {
    Block* next;
  };
  struct Bin {
    Block* first;
    size_t count;
  };
  HandCoalesce heap;
  Bin bins[Small::count];

  void* allocate(size_t size) {
    if (size > 520) [[unlikely]]
      return heap.allocate(size);
    const size_t c = Small::of(size);
    Block* b = bins[c].first;
    if (b == nullptr) [[unlikely]]
      return heap.allocate(24 + 16 * c);
    bins[c].first = b->next;
    --bins[c].count;
    return b;
  }
  void deallocate(void* p) {
    const size_t size = TaggedBlock::Of(p)->size() - TaggedBlock::kTag;
    if (size > 536 || size < 24) [[unlikely]]
      return heap.deallocate(p);
    Bin& bin = bins[size >= 520 ? Small::count - 1 : (size - 24) / 16];
    if (bin.count == 32) return heap.deallocate(p);
    ++bin.count;
    bin.first = ::new (p) Block{bin.first};
  }
};

template <class Composed, class Hand>
constexpr bool kNoLarger = sizeof(Composed) <= sizeof(Hand);
static_assert(sizeof(ComposedBins) == 7 * sizeof(void*), "list heads and nothing else");
static_assert(kNoLarger<ComposedList, HandList> && kNoLarger<ComposedBins, HandBins>);
static_assert(kNoLarger<ComposedQuarters, HandQuarters>);
static_assert(kNoLarger<ComposedKingsley, HandKingsley> && kNoLarger<ComposedLocked, HandLocked>);
static_assert(kNoLarger<ComposedHeader, HandHeader>);
static_assert(sizeof(ComposedLea) <= sizeof(HandLea) + sizeof(size_t), "Coalesce has a slack");

extern "C" {
void* composed_list_allocate(ComposedList& h, size_t n) { return h.allocate(n); }
void* hand_list_allocate(HandList& h, size_t n) { return h.allocate(n); }
void composed_list_deallocate(ComposedList& h, void* p, size_t n) { h.deallocate(p, n); }
void hand_list_deallocate(HandList& h, void* p, size_t n) { h.deallocate(p, n); }
void* composed_bins_allocate(ComposedBins& h, size_t n) { return h.allocate(n); }
void* hand_bins_allocate(HandBins& h, size_t n) { return h.allocate(n); }
void composed_bins_deallocate(ComposedBins& h, void* p, size_t n) { h.deallocate(p, n); }
void hand_bins_deallocate(HandBins& h, void* p, size_t n) { h.deallocate(p, n); }
void* composed_quarters_allocate(ComposedQuarters& h, size_t n) { return h.allocate(n); }
void* hand_quarters_allocate(HandQuarters& h, size_t n) { return h.allocate(n); }
void composed_quarters_deallocate(ComposedQuarters& h, void* p, size_t n) { h.deallocate(p, n); }
void hand_quarters_deallocate(HandQuarters& h, void* p, size_t n) { h.deallocate(p, n); }
void* composed_kingsley_allocate(ComposedKingsley& h, size_t n) { return h.allocate(n); }
void* hand_kingsley_allocate(HandKingsley& h, size_t n) { return h.allocate(n); }
void composed_kingsley_deallocate(ComposedKingsley& h, void* p) { h.deallocate(p); }
void hand_kingsley_deallocate(HandKingsley& h, void* p) { h.deallocate(p); }
void* composed_locked_allocate(ComposedLocked& h, size_t n) { return h.allocate(n); }
void* hand_locked_allocate(HandLocked& h, size_t n) { return h.allocate(n); }
void composed_locked_deallocate(ComposedLocked& h, void* p, size_t n) { h.deallocate(p, n); }
void hand_locked_deallocate(HandLocked& h, void* p, size_t n) { h.deallocate(p, n); }
void* composed_header_allocate(ComposedHeader& h, size_t n) { return h.allocate(n); }
void* hand_header_allocate(HandHeader& h, size_t n) { return h.allocate(n); }
void composed_header_deallocate(ComposedHeader& h, void* p) { h.deallocate(p); }
void hand_header_deallocate(HandHeader& h, void* p) { h.deallocate(p); }
void* composed_coalesce_allocate(ComposedCoalesce& h, size_t n) { return h.allocate(n); }
void* hand_coalesce_allocate(HandCoalesce& h, size_t n) { return h.allocate(n); }
void composed_coalesce_deallocate(ComposedCoalesce& h, void* p) { h.deallocate(p); }
void hand_coalesce_deallocate(HandCoalesce& h, void* p) { h.deallocate(p); }
void* composed_lea_allocate(ComposedLea& h, size_t n) { return h.allocate(n); }
void* hand_lea_allocate(HandLea& h, size_t n) { return h.allocate(n); }
void composed_lea_deallocate(ComposedLea& h, void* p) { h.deallocate(p); }
void hand_lea_deallocate(HandLea& h, void* p) { h.deallocate(p); }
}
