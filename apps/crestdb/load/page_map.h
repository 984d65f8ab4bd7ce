// The pages that hold values, in the order of their addresses, for a picture of the address space:
// whether each is in memory, how many bytes of values lie on it, and how many of them were used.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace crest {

class PageMap {
 public:
  void Add(const void* at, uint64_t bytes, bool used);

  // As CSV: page (from the first one on), resident, value_bytes, used_bytes. Throws
  // std::runtime_error where the file can't be written.
  void Write(const std::string& path) const;

 private:
  struct Page {
    uint32_t value_bytes = 0, used_bytes = 0;
  };
  std::map<uint64_t, Page> pages_;
};

}  // namespace crest
