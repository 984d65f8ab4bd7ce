// What a client of the control socket may ask, and the parser of its one line. Pure: the fuzzer
// drives it. Sits in control; docs/control.md is the protocol.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

constexpr size_t kMaxRequestLine = 1024;  // without the line end, but with the key
constexpr char kWhoMayAsk[] =
    "only the user of this process, or root, may ask, with the key in its list of mappings";

enum class ControlVerb : uint8_t { kStats, kProfile, kRelease, kSet, kGet, kOptions, kVersion };
enum class StatsFormat : uint8_t { kJson, kText, kPrometheus };

struct ControlRequest {
  static constexpr size_t kNameBytes = 48;
  static constexpr size_t kValueBytes = 256;
  static constexpr uint32_t kMaxSeconds = 3600;

  ControlVerb verb = ControlVerb::kVersion;
  StatsFormat format = StatsFormat::kJson;
  uint32_t seconds = 0;          // profile: 0 means since the start
  size_t bytes = SIZE_MAX;       // release: at least so many
  char name[kNameBytes] = {};    // profile: the kind; set and get: the setting, or empty for all
  char value[kValueBytes] = {};  // set
};

// Reads `length` bytes without the line end. Null, or what is wrong with the line; `out` is then of
// no use.
const char* ParseRequest(const char* line, size_t length, ControlRequest& out);

}  // namespace strata
