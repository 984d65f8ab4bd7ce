// The options: a plain struct, filled from the environment by the table in option_table.h. A value
// that makes no sense gets one warning and the default; an unknown name gets one warning. Sits in
// malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory_watch.h"
#include "os/topology.h"

namespace strata {

enum class CacheChoice : uint8_t { kAuto, kCpu, kThread };
enum class OnError : uint8_t { kAbort, kIgnore };
enum class ControlChoice : uint8_t { kOn, kOff, kAlways };
enum class LifetimeChoice : uint8_t { kOff, kOnline, kModel };
enum class Rights : uint8_t { kOfCaller, kBeyondCaller };  // of the process

inline constexpr size_t kDefaultSampleInterval = 2 << 20;
inline constexpr uint32_t kDefaultGuardEvery = 10'000;
inline constexpr uint32_t kCheckGuardEvery = 100;  // unless it says so itself
inline constexpr size_t kLearningSampleInterval = 512 << 10;
inline constexpr uint32_t kMostWeight = 10'000;

// Copies of what the environment says, which programs overwrite. All zero at first, and written to
// only where an option is given: so nobody else has these pages in memory.
struct OptionTexts {
  char stats[1024];
  char prometheus[1024];
  char profile_kind[16];
  char profile_path[1024];
  char cache_domains[512];
  char model[1024];
};

// Of an option that is not given. A variable, so that it lies beside what all programs read.
inline constexpr char kNoText[] = "";

struct Options {
  OptionTexts* texts = nullptr;        // where all given texts lie
  const char* stats = kNoText;         // "exit" or a path; empty: none
  const char* prometheus = kNoText;    // a path; empty: none
  const char* profile_kind = kNoText;  // empty: no profile is written
  const char* profile_path = kNoText;
  int profile_signal = 0;           // 0: none
  uint32_t profile_interval_s = 0;  // 0: only at exit and on the signal
  uint32_t stats_interval_s = 0;
  CacheChoice cache = CacheChoice::kAuto;
  bool release = true;
  bool hugepages = true;
  bool sparse_blocks = true;
  bool background = true;
  bool verbose = false;
  const char* cache_domains = "auto";  // or "off", or lists of CPUs that ParseCacheDomains takes
  bool adaptive = true;
  bool span_priority = true;
  bool lifetime_filler = false;
  LifetimeChoice lifetimes = LifetimeChoice::kOff;
  const char* model = kNoText;  // a path; empty: none
  uint32_t contexts = 0;        // groups of objects by calling context; 0: none
  bool says_lifetimes = false;
  bool says_sample = false;
  bool adapts_sample = false;  // the interval is ours to choose
  ControlChoice control = ControlChoice::kOn;
  OnError on_error = OnError::kAbort;
  uint32_t guard_every = kDefaultGuardEvery;  // one of so many allocations is guarded; 0: none
  bool says_guard = false;
  bool check = false;
  size_t cpu_cache_bytes = 1536 << 10;
  size_t heap_limit = 0;
  size_t sample_interval = kDefaultSampleInterval;
  SoftLimitSetting soft_limit;
  bool price = false;
  uint32_t weight = 100;
  uint32_t release_short_ms = 0;  // 0: the page heap's default
  uint32_t release_long_ms = 0;
  uint32_t release_peak_ms = 0;
  uint32_t release_idle_ms = 0;
};

// The cache domains that the option's text stands for.
CacheTopology TopologyOf(const char* cache_domains);

// Reads the variables of `environment` (null-terminated, may be null); their texts go to `texts`.
// With rights beyond its caller's, nothing that writes a file, lets the caller reach in, makes
// allocations fail or slow, or goes on after a corruption is honoured, and there is no control
// socket.
Options ReadOptions(char* const* environment, Rights rights, OptionTexts& texts);

}  // namespace strata
