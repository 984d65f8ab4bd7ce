// Records of huge pages that serve none now. They are made in the arena and never given back, so
// one that is retired serves the next page. Sits in lifetime; its shard's lock guards it.
#pragma once

#include <cstddef>
#include <new>

#include "base/check.h"
#include "lifetime/huge_block_page.h"

namespace strata {

class BlockPageRecords {
 public:
  // Whether there are n at least; makes those that are missing.
  template <class Arena>
  bool Make(size_t n, Arena& arena) {
    while (count_ < n) {
      auto* page = arena.template New<HugeBlockPage>();
      if (page == nullptr) return false;
      Keep(*page);
    }
    return true;
  }
  void Keep(HugeBlockPage& page) {
    page.by_run.list_next = first_;
    first_ = &page.by_run;
    ++count_;
  }
  // As new. There is one.
  HugeBlockPage* Take() {
    STRATA_DCHECK(first_ != nullptr);
    HugeBlockPage::Link* link = first_;
    first_ = link->list_next;
    --count_;
    return ::new (static_cast<void*>(link->page)) HugeBlockPage;
  }

 private:
  HugeBlockPage::Link* first_ = nullptr;
  size_t count_ = 0;
};

}  // namespace strata
