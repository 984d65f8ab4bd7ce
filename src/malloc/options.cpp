// The option table and its parser. See options.h.
#include "malloc/options.h"

#include <signal.h>
#include <string.h>

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/message.h"
#include "base/object_group.h"
#include "base/parse_value.h"
#include "profile/profile_kinds.h"

namespace strata {
namespace {

constexpr char kPrefix[] = "STRATA_";
constexpr size_t kPrefixLength = sizeof(kPrefix) - 1;

template <size_t N>
bool Copy(const char* v, size_t length, char (&text)[N], const char*& out) {
  if (length >= N) return false;
  memcpy(text, v, length);
  text[length] = '\0';
  out = text;
  return true;
}

template <size_t N>
bool ParsePath(const char* v, char (&text)[N], const char*& out) {
  bool on = false;
  if (ParseSwitch(v, on)) return !on;  // "off" is no path; "on" does not say where to
  const size_t length = strlen(v);
  return length != 0 && Copy(v, length, text, out);
}

// KIND:PATH.
bool ParseProfile(const char* v, Options& o) {
  const char* colon = strchr(v, ':');
  if (colon == nullptr) return false;
  const auto length = static_cast<size_t>(colon - v);
  OptionTexts& texts = *o.texts;
  // Copied twice: a text that was given before stays where this one makes no sense.
  char text[sizeof(texts.profile_kind)];
  const char* name = nullptr;
  ProfileKind kind;
  return Copy(v, length, text, name) && FindProfileKind(name, kind) &&
         ParsePath(colon + 1, texts.profile_path, o.profile_path) &&
         Copy(v, length, texts.profile_kind, o.profile_kind);
}

// A signal that is meant for programs to use: none that reports a fault, none that can't be caught,
// none of libc's own.
bool ParseSignal(const char* v, Options& o) {
  uint64_t n = 0;
  if (!ParseNumber(v, NumberForm::kPlain, 64, n)) return false;
  constexpr int kNever[] = {0,      SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE,
                            SIGILL, SIGTRAP, SIGSYS,  32,      33};
  for (const int no : kNever) {
    if (static_cast<int>(n) == no) return false;
  }
  o.profile_signal = static_cast<int>(n);
  return true;
}

template <uint32_t Options::* kField>
bool Milliseconds(const char* v, Options& o) {
  uint64_t n = 0;
  if (!ParseNumber(v, NumberForm::kPlain, 3600u * 1000, n) || n == 0) return false;
  o.*kField = static_cast<uint32_t>(n);
  return true;
}

template <bool Options::* kField>
bool Switch(const char* v, Options& o) {
  return ParseSwitch(v, o.*kField);
}

template <uint32_t Options::* kField>
bool Interval(const char* v, Options& o) {
  uint64_t n = 0;
  if (!ParseNumber(v, NumberForm::kPlain, 86400, n)) return false;
  o.*kField = static_cast<uint32_t>(n);
  return true;
}

struct Preset;
const Preset* FindPreset(const char* name);

constexpr OptionRow kTable[] = {
    {"PRESET", "memory|speed|latency|debug", "none",
     "a set of other options, listed below; those you set yourself count",
     [](const char* v, Options&) { return FindPreset(v) != nullptr; }},
    {"STATS", "exit|PATH|off", "none",
     "print statistics on stderr at exit, or write them to PATH as JSON (.txt: text)",
     [](const char* v, Options& o) { return ParsePath(v, o.texts->stats, o.stats); }},
    {"PROMETHEUS", "PATH|off", "none", "write statistics to PATH for Prometheus; %p is the pid",
     [](const char* v, Options& o) { return ParsePath(v, o.texts->prometheus, o.prometheus); }},
    {"STATS_INTERVAL", "seconds", "0 (only at exit); 15 with STRATA_PROMETHEUS",
     "rewrite these files while the program runs", Interval<&Options::stats_interval_s>},
    {"CACHE", "auto|cpu|thread", "auto", "one cache a CPU (needs rseq), or one a thread",
     [](const char* v, Options& o) {
       if (strcmp(v, "auto") == 0) {
         o.cache = CacheChoice::kAuto;
       } else if (strcmp(v, "cpu") == 0) {
         o.cache = CacheChoice::kCpu;
       } else if (strcmp(v, "thread") == 0) {
         o.cache = CacheChoice::kThread;
       } else {
         return false;
       }
       return true;
     }},
    {"CPU_CACHE_BYTES", "bytes", "1536K",
     "what caches may hold for each CPU in use; less memory, more misses",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, NumberForm::kSize, uint64_t{1} << 30, n)) return false;
       o.cpu_cache_bytes = n;
       return true;
     }},
    {"RELEASE", "on|off", "on",
     "give free memory back by itself; off keeps the peak, except near a limit",
     Switch<&Options::release>},
    {"RELEASE_SHORT_MS", "ms", "10000", "how far back to look for swings in what is used",
     Milliseconds<&Options::release_short_ms>},
    {"RELEASE_LONG_MS", "ms", "30000", "how far back to look for the steady level",
     Milliseconds<&Options::release_long_ms>},
    {"RELEASE_PEAK_MS", "ms", "30000", "keep no more than the peak of this long",
     Milliseconds<&Options::release_peak_ms>},
    {"RELEASE_IDLE_MS", "ms", "3000", "the same while the program rests",
     Milliseconds<&Options::release_idle_ms>},
    {"HUGEPAGES", "on|off", "on", "ask for hugepages; off for programs that fork and write a lot",
     Switch<&Options::hugepages>},
    {"SPARSE_BLOCKS", "on|off", "on", "free zero pages of large blocks",
     Switch<&Options::sparse_blocks>},
    {"HEAP_LIMIT", "bytes", "0 (none)", "beyond this much heap malloc returns null",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, NumberForm::kSize, UINT64_MAX, n)) return false;
       o.heap_limit = n;
       return true;
     }},
    {"ADAPTIVE", "on|off", "on", "give more cache to the CPUs that miss more",
     Switch<&Options::adaptive>},
    {"SOFT_LIMIT", "bytes|PERCENT%|off", "90%",
     "from here on free memory goes back at once: a part of the cgroup's limit, or this process's "
     "bytes",
     [](const char* v, Options& o) { return ParseSoftLimit(v, o.soft_limit); }},
    {"PRICE", "on|off", "off", "growth waits while memory is scarce, so that nobody is killed",
     Switch<&Options::price>},
    {"WEIGHT", "1-10000", "100", "with PRICE: this process's share, beside others at 100",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, NumberForm::kPlain, kMostWeight, n) || n == 0) return false;
       o.weight = static_cast<uint32_t>(n);
       return true;
     }},
    {"CACHE_DOMAINS", "auto|off|CPU lists", "auto",
     "keep freed objects in the last-level cache they lie in; 0-3;4-7 says which CPUs share one",
     [](const char* v, Options& o) {
       CacheTopology topology;
       const bool word = strcmp(v, "auto") == 0 || strcmp(v, "off") == 0;
       return (word || ParseCacheDomains(v, topology)) &&
              Copy(v, strlen(v), o.texts->cache_domains, o.cache_domains);
     }},
    {"SPAN_PRIORITY", "on|off", "on", "fill the fullest spans first",
     Switch<&Options::span_priority>},
    {"LIFETIME_FILLER", "on|off", "off",
     "give spans of more than 16 objects hugepages of their own",
     Switch<&Options::lifetime_filler>},
    {"LIFETIMES", "off|online|model", "off (model if STRATA_MODEL is set)",
     "keep objects that last apart, as learned from samples or from a model",
     [](const char* v, Options& o) {
       if (strcmp(v, "off") == 0) {
         o.lifetimes = LifetimeChoice::kOff;
       } else if (strcmp(v, "online") == 0) {
         o.lifetimes = LifetimeChoice::kOnline;
       } else if (strcmp(v, "model") == 0) {
         o.lifetimes = LifetimeChoice::kModel;
       } else {
         return false;
       }
       o.says_lifetimes = true;
       return true;
     }},
    {"MODEL", "PATH|off", "none", "the model that `strata train` made",
     [](const char* v, Options& o) { return ParsePath(v, o.texts->model, o.model); }},
    {"CONTEXTS", "0|2-64", "0 (off)",
     "keep objects in N groups by who allocates them; each malloc and free takes a lock",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, NumberForm::kPlain, kMostContexts, n) || n == 1) return false;
       o.contexts = static_cast<uint32_t>(n);
       return true;
     }},
    {"SAMPLE", "bytes", "2M; 512K with LIFETIMES",
     "take a sample with its stack every so many bytes; 0 takes none",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, NumberForm::kSize, UINT64_MAX, n)) return false;
       o.sample_interval = n;
       o.says_sample = true;
       return true;
     }},
    {"BACKGROUND", "on|off", "on", "the thread that gives memory back",
     Switch<&Options::background>},
    {"CONTROL", "on|off|always", "on",
     "the socket that `strata stats PID` asks; always: from the start, even in tiny programs",
     [](const char* v, Options& o) {
       bool on = false;
       if (strcmp(v, "always") == 0) {
         o.control = ControlChoice::kAlways;
       } else if (ParseSwitch(v, on)) {
         o.control = on ? ControlChoice::kOn : ControlChoice::kOff;
       } else {
         return false;
       }
       return true;
     }},
    {"PROFILE", "KIND:PATH", "none",
     "write a profile (heap, allocs, peak, lifetime, fragmentation) to PATH at exit; %p is the pid",
     ParseProfile},
    {"PROFILE_INTERVAL", "seconds", "0 (only at exit)", "rewrite it while the program runs",
     Interval<&Options::profile_interval_s>},
    {"PROFILE_SIGNAL", "number", "none", "write it to PATH.1, PATH.2 ... when this signal comes",
     ParseSignal},
    {"ON_ERROR", "abort|ignore", "abort",
     "on a bad free: end the program, or leave the block and go on",
     [](const char* v, Options& o) {
       if (strcmp(v, "abort") != 0 && strcmp(v, "ignore") != 0) return false;
       o.on_error = strcmp(v, "abort") == 0 ? OnError::kAbort : OnError::kIgnore;
       return true;
     }},
    {"GUARD", "1/N|on|off", "on (1/10000, at most 50 a CPU second)",
     "put one of N blocks between guard pages, which find use after free and overflow",
     [](const char* v, Options& o) {
       bool on = false;
       uint64_t n = 0;
       if (ParseSwitch(v, on)) {
         o.guard_every = on ? kDefaultGuardEvery : 0;
         o.says_guard = false;
         return true;
       }
       if (strncmp(v, "1/", 2) != 0 || !ParseNumber(v + 2, NumberForm::kPlain, 1u << 30, n) ||
           n == 0)
         return false;
       o.guard_every = static_cast<uint32_t>(n);
       o.says_guard = true;
       return true;
     }},
    {"CHECK", "on|off", "off", "check every block for memory errors, for debugging; slow",
     Switch<&Options::check>},
    {"VERBOSE", "on|off", "off", "say in one line at the start what was found",
     Switch<&Options::verbose>},
};

// Sets of options by name. What is set besides counts, wherever it stands.
struct Preset {
  const char* name;
  const char* const* assignments;  // up to a null
};
constexpr const char* kMemory[] = {"RELEASE_SHORT_MS=1000", "RELEASE_LONG_MS=3000",
                                   "RELEASE_PEAK_MS=3000",  "RELEASE_IDLE_MS=500",
                                   "CPU_CACHE_BYTES=256K",  nullptr};
constexpr const char* kSpeed[] = {"RELEASE=off", "CPU_CACHE_BYTES=4M", nullptr};
constexpr const char* kLatency[] = {"RELEASE=off", "CPU_CACHE_BYTES=4M", "BACKGROUND=off",
                                    "SAMPLE=0", nullptr};
constexpr const char* kDebug[] = {"VERBOSE=on",     "STATS=exit", "SAMPLE=64K",
                                  "CONTROL=always", "CHECK=on",   nullptr};
constexpr Preset kPresets[] = {
    {"memory", kMemory}, {"speed", kSpeed}, {"latency", kLatency}, {"debug", kDebug}};

const Preset* FindPreset(const char* name) {
  for (const Preset& p : kPresets) {
    if (strcmp(p.name, name) == 0) return &p;
  }
  return nullptr;
}

STRATA_NOINLINE bool VisitRow(OptionVisitor visit, void* state, const char* name, const char* takes,
                              const char* fallback, const char* help,
                              decltype(OptionRow::parse) parse) {
  return visit(state, {name, takes, fallback, help, parse});
}

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
  const Preset* preset = name == nullptr ? nullptr : FindPreset(name);
  if (preset == nullptr) return;
  for (const char* const* at = preset->assignments; *at != nullptr; ++at) ReadOne(*at, out);
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

bool ParseSoftLimit(const char* text, SoftLimitSetting& out) {
  if (strcmp(text, "off") == 0) {
    out = {SoftLimitSetting::Kind::kOff, 0};
    return true;
  }
  const size_t length = strlen(text);
  uint64_t n = 0;
  if (length > 1 && length < 5 && text[length - 1] == '%') {
    char digits[4] = {};
    memcpy(digits, text, length - 1);
    if (!ParseNumber(digits, NumberForm::kPlain, 100, n) || n == 0) return false;
    out = {SoftLimitSetting::Kind::kPercent, n};
    return true;
  }
  if (!ParseNumber(text, NumberForm::kSize, uint64_t{1} << 60, n) || n == 0) return false;
  out = {SoftLimitSetting::Kind::kBytes, n};
  return true;
}

// The rows are in the code, not in a table: its pointers would have to be filled in as any program
// starts, in pages of its own.
bool VisitOptions(OptionVisitor visit, void* state) {
  const auto visit_row = [&]<size_t... kRow>(std::index_sequence<kRow...>) {
    return (VisitRow(visit, state, kTable[kRow].name, kTable[kRow].takes, kTable[kRow].fallback,
                     kTable[kRow].help, kTable[kRow].parse) ||
            ...);
  };
  return visit_row(std::make_index_sequence<std::size(kTable)>());
}

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
