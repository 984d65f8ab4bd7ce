// Marks the used bytes of each page and adds them up.
#include "load/page_use.h"

#include <algorithm>

namespace crest {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

void PageUse::Add(const void* at, uint64_t bytes) {
  if (at == nullptr || bytes == 0) return;
  bytes_ += bytes;
  const auto first = reinterpret_cast<uintptr_t>(at);
  for (uint64_t page = first / kPage; page <= (first + bytes - 1) / kPage; ++page)
    pages_.push_back(page);
}

PageUse::Result PageUse::Sum() {
  std::sort(pages_.begin(), pages_.end());
  pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
  Result r{bytes_, pages_.size(), 0};
  if (r.pages != 0)
    r.percent = 100.0 * static_cast<double>(bytes_) / static_cast<double>(r.pages * kPage);
  return r;
}

}  // namespace crest
