// The requests of a run: YCSB's six mixes over a distribution of keys (Cooper et al., SoCC 2010).
// They are drawn before the run and then replayed in a loop by each thread, as drivers do that
// replay a file which YCSB wrote: that gives an active set, and keys that are never asked for.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "load/distribution.h"

namespace crest {

enum class Operation : uint8_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };

struct Request {
  uint32_t key;  // its number; of an insertion, ignored
  Operation operation;
  uint8_t length;  // of a scan
};

// 'A' to 'F'; false: no such mix.
bool IsMix(char mix);
// What a run with the mix draws its keys from, where nothing else is asked for.
std::string_view DistributionOf(char mix);

std::vector<Request> DrawRequests(char mix, const DistributionSpec& spec, uint64_t keys,
                                  size_t count, uint64_t seed);

// The key of a number: 30 bytes, in an order that has nothing to do with the numbers'.
class KeyText {
 public:
  static constexpr size_t kBytes = 30;

  explicit KeyText(uint64_t number);
  std::string_view view() const { return {text_.data(), kBytes}; }

 private:
  std::array<char, kBytes> text_;
};

// What is stored under a key: its number and how often it was written, then filler.
void FillValue(uint64_t number, uint64_t version, size_t bytes, std::string& value);

}  // namespace crest
