// GuardPages: puts each block at the end of pages of its own, with a page behind it that faults
// when it is touched: for hunting a bug, or for one class of suspicious objects. Blocks are aligned
// to 16 bytes, so up to 15 lie between a block's end and the page; they are filled, and looked at
// when the block is freed.
// BasicGuardPages<1> has none, and the first byte past the end faults. Two pages and three system
// calls a block.
#pragma once

#include <sys/mman.h>

#include <cstring>

#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kAlignment>
struct BasicGuardPages {
  static_assert(IsPowerOfTwo(kAlignment) && kAlignment <= 4096,
                "GuardPages: blocks are aligned to a power of two, at most a page");

  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= 4096, "GuardPages needs a heap of whole pages, such as Mmap");

   public:
    // No more: a block ends where its pages end.
    static constexpr size_t alignment = kAlignment;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Over<Below>::Over;

    void* allocate(size_t size) {
      if (size > kMaxRequest - 2 * kPage) return nullptr;
      const size_t pages = PagesFor(size);
      auto* raw = static_cast<char*>(this->next_.allocate(pages + kPage));
      if (raw == nullptr) return nullptr;
      if (mprotect(raw + pages, kPage, PROT_NONE) != 0) {
        this->next_.deallocate(raw, pages + kPage);
        return nullptr;
      }
      char* p = raw + pages - RoundUpBlock(size, alignment);
      memset(p + size, kFill, SlackOf(size));
      return p;
    }
    void deallocate(void* p, size_t size) {
      const size_t pages = PagesFor(size);
      LookBehind(static_cast<char*>(p), size);
      char* raw = static_cast<char*>(p) + RoundUpBlock(size, alignment) - pages;
      // Only taking protection away can't be refused for want of memory: the page has none.
      mprotect(raw + pages, kPage, PROT_READ | PROT_WRITE);
      this->next_.deallocate(raw, pages + kPage);
    }
    void drain(size_t size) { Over<Below>::drain(PagesFor(size) + kPage); }

   private:
    static constexpr size_t kPage = 4096;
    static constexpr unsigned char kFill = 0xfd;
    static constexpr size_t PagesFor(size_t size) { return RoundUpBlock(size, kPage); }
    static constexpr size_t SlackOf(size_t size) { return RoundUpBlock(size, alignment) - size; }

    static void LookBehind(const char* p, size_t size) {
      const char* end = p + size + SlackOf(size);
      for (const char* at = p + size; at < end; ++at) {
        if (static_cast<unsigned char>(*at) != kFill)
          DieOfMisuse("", "guard pages: the bytes behind a block were written to");
      }
    }
  };
};

using GuardPages = BasicGuardPages<kDefaultAlignment>;

}  // namespace strata::layers
