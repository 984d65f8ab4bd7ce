// The environment, read by the table of option_table.h, and what becomes of options that do not go
// together or that the caller must not set. See options.h.
#include "malloc/options.h"

#include <string.h>

#include "base/check.h"
#include "base/message.h"
#include "malloc/option_table.h"

namespace strata {
namespace {

constexpr char kPrefix[] = "STRATA_";
constexpr size_t kPrefixLength = sizeof(kPrefix) - 1;

// Variables that tools and tests of this project use and that the library must not complain about.
constexpr const char* kNotOurs[] = {"LIB", "BUILD", "HOME"};

bool NameIs(const char* assignment, const char* name, const char** value) {
  const size_t n = strlen(name);
  if (strncmp(assignment, name, n) != 0 || assignment[n] != '=') return false;
  *value = assignment + n + 1;
  return true;
}

struct Assignment {
  const char* text;
  Options& options;
};

// True if it is one of this row's.
bool ReadByRow(void* state, const OptionRow& row) {
  const auto& assignment = *static_cast<const Assignment*>(state);
  const char* value = nullptr;
  if (!NameIs(assignment.text, row.name, &value)) return false;
  const Options before = assignment.options;
  if (row.parse(value, assignment.options)) return true;
  assignment.options = before;
  Message()
      .Text("STRATA_")
      .Text(row.name)
      .Text("=")
      .Text(value)
      .Text(" makes no sense; it takes ")
      .Text(row.takes)
      .Text("; using ")
      .Text(row.fallback)
      .Send();
  return true;
}

void ReadOne(const char* assignment, Options& out) {
  Assignment read{assignment, out};
  if (VisitOptions(ReadByRow, &read)) return;
  const char* value = nullptr;
  for (const char* name : kNotOurs) {
    if (NameIs(assignment, name, &value)) return;
  }
  char name[64] = {};
  for (size_t i = 0; i + 1 < sizeof(name) && assignment[i] != '=' && assignment[i] != '\0'; ++i)
    name[i] = assignment[i];
  Message().Text("unknown option STRATA_").Text(name).Text(" ignored").Send();
}

// The first one; a later STRATA_PRESET is no better than a later PATH.
void ApplyPreset(char* const* environment, Options& out) {
  const char* name = nullptr;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (strncmp(*environment, kPrefix, kPrefixLength) != 0) continue;
    if (NameIs(*environment + kPrefixLength, "PRESET", &name)) break;
  }
  const char* const* at = name == nullptr ? nullptr : FindPreset(name);
  for (; at != nullptr && *at != nullptr; ++at) ReadOne(*at, out);
}

// For a program with more rights than its caller, who must not have it write a file, reach into it,
// make its allocations fail or each of them slow, or have it go on after a corruption.
void DropWhatOnlyOwnersChoose(Options& o) {
  o.stats = kNoText;
  o.prometheus = kNoText;
  o.profile_path = kNoText;
  o.profile_signal = 0;
  o.profile_interval_s = 0;
  o.stats_interval_s = 0;
  o.control = ControlChoice::kOff;
  o.heap_limit = 0;
  o.contexts = 0;
  o.price = false;
  o.sample_interval = kDefaultSampleInterval;
  o.says_sample = false;
  o.on_error = OnError::kAbort;
  o.guard_every = kDefaultGuardEvery;
  o.says_guard = false;
  o.check = false;
  o.model = kNoText;
  if (o.lifetimes == LifetimeChoice::kModel) o.lifetimes = LifetimeChoice::kOff;
}

void SettleChecks(Options& o) {
  if (!o.check) return;
  o.contexts = 0;
  if (!o.says_guard && o.guard_every != 0) {
    o.guard_every = kCheckGuardEvery;
    o.says_guard = true;
  }
}

STRATA_ONCE void SettleLifetimes(Options& o) {
  if (o.model[0] != '\0' && !o.says_lifetimes) o.lifetimes = LifetimeChoice::kModel;
  if (o.lifetimes == LifetimeChoice::kModel && o.model[0] == '\0') {
    o.lifetimes = LifetimeChoice::kOff;
    Message().Text("STRATA_LIFETIMES=model needs a file in STRATA_MODEL; ignored").Send();
  }
  if (o.lifetimes != LifetimeChoice::kOff && o.contexts != 0) {
    o.contexts = 0;
    Message()
        .Text("STRATA_CONTEXTS ignored: STRATA_LIFETIMES already groups objects by call site")
        .Send();
  }
  if (o.lifetimes != LifetimeChoice::kOff && !o.says_sample) {
    o.sample_interval = kLearningSampleInterval;
    o.adapts_sample = true;
  }
}

STRATA_ONCE void SettleFiles(Options& o) {
  if (o.profile_signal != 0 && o.profile_path[0] == '\0') {
    o.profile_signal = 0;
    Message().Text("STRATA_PROFILE_SIGNAL needs KIND:PATH in STRATA_PROFILE; ignored").Send();
  }
  if (o.profile_interval_s != 0 && o.profile_path[0] == '\0') {
    o.profile_interval_s = 0;
    Message().Text("STRATA_PROFILE_INTERVAL needs KIND:PATH in STRATA_PROFILE; ignored").Send();
  }
  const bool to_file =
      (o.stats[0] != '\0' && strcmp(o.stats, "exit") != 0) || o.prometheus[0] != '\0';
  if (o.stats_interval_s != 0 && !to_file) {
    o.stats_interval_s = 0;
    Message()
        .Text("STRATA_STATS_INTERVAL needs a path in STRATA_STATS or STRATA_PROMETHEUS; ignored")
        .Send();
  }
  const bool later = o.profile_signal != 0 || o.profile_interval_s != 0 ||
                     o.stats_interval_s != 0 || o.prometheus[0] != '\0';
  if (later && !o.background) {
    Message()
        .Text(
            "STRATA_BACKGROUND=off: files are written at exit only, not at intervals or when a "
            "signal comes")
        .Send();
  }
  constexpr uint32_t kScrapeSeconds = 15;
  if (o.prometheus[0] != '\0' && o.stats_interval_s == 0) o.stats_interval_s = kScrapeSeconds;
}

}  // namespace

CacheTopology TopologyOf(const char* cache_domains) {
  if (strcmp(cache_domains, "auto") == 0) return ReadCacheTopology("/sys/devices/system/cpu");
  CacheTopology topology;
  ParseCacheDomains(cache_domains, topology);  // "off" is no list: no domains
  return topology;
}

STRATA_ONCE Options ReadOptions(char* const* environment, Rights rights, OptionTexts& texts) {
  Options out;
  out.texts = &texts;
  ApplyPreset(environment, out);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (strncmp(*environment, kPrefix, kPrefixLength) == 0)
      ReadOne(*environment + kPrefixLength, out);
  }
  if (rights == Rights::kBeyondCaller) DropWhatOnlyOwnersChoose(out);
  SettleChecks(out);
  SettleLifetimes(out);
  SettleFiles(out);
  return out;
}

}  // namespace strata
