// Asks mincore which pages are in memory; the rest is counted from the values' places.
#include "load/page_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace crest {
namespace {

constexpr uint64_t kPage = 4096;

bool InMemory(uint64_t page) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(page * kPage), kPage, &resident) == 0 &&
         (resident & 1) != 0;
}

}  // namespace

void PageMap::Add(const void* at, uint64_t bytes, bool used) {
  auto from = reinterpret_cast<uintptr_t>(at);
  const uintptr_t end = from + bytes;
  while (from < end) {
    const uintptr_t to = std::min<uintptr_t>(end, (from / kPage + 1) * kPage);
    Page& page = pages_[from / kPage];
    page.value_bytes += static_cast<uint32_t>(to - from);
    if (used) page.used_bytes += static_cast<uint32_t>(to - from);
    from = to;
  }
}

void PageMap::Write(const std::string& path) const {
  std::ofstream out(path);
  out << "page,resident,value_bytes,used_bytes\n";
  const uint64_t first = pages_.empty() ? 0 : pages_.begin()->first;
  for (const auto& [page, what] : pages_) {
    out << page - first << ',' << (InMemory(page) ? 1 : 0) << ',' << what.value_bytes << ','
        << what.used_bytes << '\n';
  }
  out.close();
  if (!out) throw std::runtime_error("the map can't be written to " + path);
}

}  // namespace crest
