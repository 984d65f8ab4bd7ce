// GuardPages: puts each block at the end of pages of its own, with a page behind it that may not be
// touched, so that the first byte past the end faults where it is written. Two pages and three
// system calls a block: for hunting a bug, or for one class of suspicious objects.
#pragma once

#include <sys/mman.h>

#include "strata/layers/heap.h"

namespace strata::layers {

struct GuardPages {
  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= 4096, "GuardPages needs a heap of whole pages, such as Mmap");

   public:
    // Only 16: a block ends where its pages end.
    static constexpr size_t alignment = kDefaultAlignment;

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
      return raw + pages - RoundUpBlock(size, alignment);
    }
    void deallocate(void* p, size_t size) {
      const size_t pages = PagesFor(size);
      char* raw = static_cast<char*>(p) + RoundUpBlock(size, alignment) - pages;
      // Only taking protection away can't be refused for want of memory: the page has none.
      mprotect(raw + pages, kPage, PROT_READ | PROT_WRITE);
      this->next_.deallocate(raw, pages + kPage);
    }

   private:
    static constexpr size_t kPage = 4096;
    static constexpr size_t PagesFor(size_t size) { return RoundUpBlock(size, kPage); }
  };
};

}  // namespace strata::layers
