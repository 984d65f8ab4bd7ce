// Deadlines of active huge pages. All pages of a rung wait equally long, so a list for each rung,
// to whose end pages are added, is in order by itself. A clock that went backwards adds with the
// deadline of the last, so that the order holds.
// Maas et al., CACM 67(4), 2024, section 3.4. Guarded by the lock of the shard that has them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/intrusive_list.h"
#include "lifetime/huge_block_page.h"

namespace strata {

class DeadlineLists {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // On the page's rung, which stays until Remove.
  void Add(HugeBlockPage& page, uint64_t now) {
    auto& list = lists_[page.rung];
    page.deadline = DeadlineAfter(now, page.rung);
    if (!list.empty()) page.deadline = std::max(page.deadline, list.last()->page->deadline);
    list.PushBack(&page.by_deadline);
  }
  void Remove(HugeBlockPage& page) { lists_[page.rung].Remove(&page.by_deadline); }

  // One whose deadline has passed, or null.
  HugeBlockPage* Due(uint64_t now) const {
    for (const auto& list : lists_) {
      if (!list.empty() && list.first()->page->deadline <= now) return list.first()->page;
    }
    return nullptr;
  }
  uint64_t Next() const {
    uint64_t next = kNever;
    for (const auto& list : lists_) {
      if (!list.empty()) next = std::min(next, list.first()->page->deadline);
    }
    return next;
  }

 private:
  IntrusiveList<HugeBlockPage::Link> lists_[kRungs];
};

}  // namespace strata
