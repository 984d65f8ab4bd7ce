// The option table: what each STRATA_* variable takes, and the sets of them that have a name. See
// option_table.h.
#include "malloc/option_table.h"

#include <signal.h>
#include <string.h>

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/object_group.h"
#include "base/parse_value.h"
#include "malloc/options.h"
#include "os/topology.h"
#include "profile/profile_kinds.h"

namespace strata {
namespace {

// What is set besides counts, wherever it stands.
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

STRATA_NOINLINE bool VisitRow(OptionVisitor visit, void* state, const char* name, const char* takes,
                              const char* fallback, const char* help,
                              decltype(OptionRow::parse) parse) {
  return visit(state, {name, takes, fallback, help, parse});
}

}  // namespace

const char* const* FindPreset(const char* name) {
  for (const Preset& p : kPresets) {
    if (strcmp(p.name, name) == 0) return p.assignments;
  }
  return nullptr;
}

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

}  // namespace strata
