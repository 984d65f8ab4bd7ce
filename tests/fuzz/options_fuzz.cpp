// The option parser on environments of the fuzzer's making: whatever they hold, every field is left
// in its range. Warnings are as many as inputs: -close_fd_mask=2 keeps only libFuzzer's own output.
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "malloc/option_table.h"
#include "malloc/options.h"

namespace {

using strata::Options;
using strata::OptionTexts;

void CheckRanges(const Options& o) {
  STRATA_CHECK(strlen(o.stats) < sizeof(OptionTexts::stats));
  STRATA_CHECK(o.stats_interval_s <= 86400);
  STRATA_CHECK(o.profile_interval_s <= 86400);
  STRATA_CHECK(o.profile_interval_s == 0 || o.profile_path[0] != '\0');
  STRATA_CHECK(o.stats_interval_s == 0 || o.stats[0] != '\0' || o.prometheus[0] != '\0');
  STRATA_CHECK(strlen(o.profile_path) < sizeof(OptionTexts::profile_path));
  STRATA_CHECK(o.profile_signal == 0 || o.profile_path[0] != '\0');
  STRATA_CHECK(o.cpu_cache_bytes <= size_t{1} << 30);
  for (const uint32_t ms :
       {o.release_short_ms, o.release_long_ms, o.release_peak_ms, o.release_idle_ms}) {
    STRATA_CHECK(ms <= 3'600'000);
  }
}

}  // namespace

// The input is split at zero bytes; a first byte below 128 puts the next known name in front of
// each piece, so that the values get their share.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> strings;
  std::vector<const char*> names;
  const auto keep = [](void* to, const strata::OptionRow& row) {
    static_cast<std::vector<const char*>*>(to)->push_back(row.name);
    return false;
  };
  strata::VisitOptions(keep, &names);
  for (size_t at = 0; at < size;) {
    std::string piece;
    while (at < size && data[at] != 0) piece.push_back(static_cast<char>(data[at++]));
    ++at;
    const auto first = static_cast<unsigned char>(piece.empty() ? 0xff : piece[0]);
    if (first < 128 && piece.size() > 1)
      piece = std::string("STRATA_") + names[first % names.size()] + "=" + piece.substr(1);
    strings.push_back("STRATA_" + piece);
    strings.push_back(piece);
  }
  std::vector<char*> environment;
  for (std::string& s : strings) environment.push_back(s.data());
  environment.push_back(nullptr);
  OptionTexts texts{}, secure_texts{};
  CheckRanges(strata::ReadOptions(environment.data(), strata::Rights::kOfCaller, texts));
  const Options secure =
      strata::ReadOptions(environment.data(), strata::Rights::kBeyondCaller, secure_texts);
  CheckRanges(secure);
  STRATA_CHECK(secure.stats[0] == '\0' && secure.stats_interval_s == 0);
  STRATA_CHECK(secure.control == strata::ControlChoice::kOff && secure.heap_limit == 0);
  return 0;
}
