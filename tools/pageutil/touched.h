// Which bytes, or cache lines, the program touched: a bit each, for the epoch that runs and for the
// whole run, and a bit a page for those in which any is set. Threads set bits without a lock; one
// thread at a time ends an epoch. Sits in tools/pageutil.
#pragma once

#include <algorithm>
#include <bit>

#include "shared_file.h"

namespace strata::pageutil {

using Word = std::atomic<uint64_t>;

template <unsigned kUnitShift>
class Touched {
 public:
  explicit Touched(SharedFile& file) : file_(file) {}

  // By whatever thread made the access; most find all bits set.
  void Mark(uint64_t address, uint64_t size) {
    const uint64_t end = address + size;
    for (;;) {
      const uint64_t stop = std::min(end, (address | (kWordBytes - 1)) + 1);
      MarkInWord(address, stop);
      if (stop == end) return;
      address = stop;
    }
  }

  // Appends a record for each page touched since the last end. A thread that marks meanwhile counts
  // in the epoch that ends or in the next: it sets the unit's bit before the page's, and here the
  // page's is taken before the units'.
  void EndEpoch() {
    const uint64_t leaves = file_.header()->leaves.load(std::memory_order_acquire);
    for (uint64_t number = 0; number < leaves; ++number) {
      const uint64_t address = file_.AddressOf(number);
      char* const leaf = file_.LeafOf(address);
      Word* const pages = file_.part<Word>(leaf, kPagesNow);
      for (uint64_t i = 0; i < kPagesOfLeaf / 64; ++i) {
        if (pages[i].load(std::memory_order_relaxed) == 0) continue;
        uint64_t set = pages[i].exchange(0, std::memory_order_seq_cst);
        for (; set != 0; set &= set - 1) {
          const uint64_t page = i * 64 + static_cast<uint64_t>(std::countr_zero(set));
          TakePage(leaf, address, page);
        }
      }
    }
  }

 private:
  static constexpr uint64_t kWordBytes = uint64_t{64} << kUnitShift;
  static constexpr uint64_t kWordsOfPage = kPageBytes / kWordBytes;
  static constexpr uint64_t kPagesOfLeaf = kLeafBytes >> kPageShift;

  // [address, end) lies within one word, and so within a page.
  void MarkInWord(uint64_t address, uint64_t end) {
    char* leaf = file_.LeafOf(address);
    if (leaf == nullptr && (leaf = file_.MakeLeaf(address)) == nullptr) return;
    const uint64_t in_leaf = address & (kLeafBytes - 1);
    const auto first = static_cast<unsigned>((in_leaf >> kUnitShift) & 63);
    const auto last = static_cast<unsigned>(((end - 1) >> kUnitShift) & 63);
    const uint64_t bits = (~uint64_t{0} >> (63 - last + first)) << first;
    Word& word = file_.part<Word>(leaf, kTouchedNow)[in_leaf / kWordBytes];
    if ((word.load(std::memory_order_relaxed) & bits) == bits) return;
    word.fetch_or(bits, std::memory_order_seq_cst);
    const uint64_t page = in_leaf >> kPageShift;
    const uint64_t page_bit = uint64_t{1} << (page & 63);
    Word& pages = file_.part<Word>(leaf, kPagesNow)[page / 64];
    if ((pages.load(std::memory_order_seq_cst) & page_bit) == 0)
      pages.fetch_or(page_bit, std::memory_order_seq_cst);
  }

  void TakePage(char* leaf, uint64_t address, uint64_t page) {
    Word* const now = file_.part<Word>(leaf, kTouchedNow) + page * kWordsOfPage;
    auto* const ever = file_.part<uint64_t>(leaf, kTouchedEver) + page * kWordsOfPage;
    uint64_t units = 0;
    for (uint64_t i = 0; i < kWordsOfPage; ++i) {
      const uint64_t seen = now[i].load(std::memory_order_relaxed);
      if (seen == 0) continue;
      ever[i] |= seen;  // first: a process that is killed between the two loses nothing
      const uint64_t taken = now[i].exchange(0, std::memory_order_seq_cst);
      ever[i] |= taken;
      units += static_cast<uint64_t>(std::popcount(taken));
    }
    if (units == 0) return;
    Header* const header = file_.header();
    const uint64_t at = header->records.load(std::memory_order_relaxed);
    if (at == kMostRecords) {
      header->lost.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    file_.area<uint64_t>(kRecordArea)[at] = Record((address >> kPageShift) + page, units);
    header->records.store(at + 1, std::memory_order_release);
  }

  SharedFile& file_;
};

}  // namespace strata::pageutil
