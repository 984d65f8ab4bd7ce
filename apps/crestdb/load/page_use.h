// How much of the pages that were used was used: unique bytes by unique pages (Banakar et al.,
// DIMES 2025), from the places of the values that a run asked for.
#pragma once

#include <cstdint>
#include <vector>

namespace crest {

class PageUse {
 public:
  void Add(const void* at, uint64_t bytes);

  struct Result {
    uint64_t bytes = 0, pages = 0;
    double percent = 0;  // 0 without any
  };
  Result Sum();

 private:
  std::vector<uint64_t> pages_;
  uint64_t bytes_ = 0;
};

}  // namespace crest
