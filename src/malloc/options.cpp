// The option table and its parser. See options.h.
#include "malloc/options.h"

#include <string.h>

#include "base/message.h"

namespace strata {
namespace {

constexpr char kPrefix[] = "STRATA_";
constexpr size_t kPrefixLength = sizeof(kPrefix) - 1;

// Digits and, for sizes, one of K M G T. False on anything else and on overflow.
bool ParseNumber(const char* text, bool size, uint64_t max, uint64_t& out) {
  if (*text < '0' || *text > '9') return false;
  uint64_t n = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    const auto digit = static_cast<uint64_t>(*text - '0');
    if (n > (UINT64_MAX - digit) / 10) return false;
    n = n * 10 + digit;
  }
  if (size && *text != '\0') {
    unsigned shift = 0;
    switch (*text++ | 0x20) {
      case 'k':
        shift = 10;
        break;
      case 'm':
        shift = 20;
        break;
      case 'g':
        shift = 30;
        break;
      case 't':
        shift = 40;
        break;
      default:
        return false;
    }
    if (n > (UINT64_MAX >> shift)) return false;
    n <<= shift;
    if (strcmp(text, "iB") == 0 || strcmp(text, "B") == 0) text += strlen(text);
  }
  if (*text != '\0' || n > max) return false;
  out = n;
  return true;
}

bool ParseSwitch(const char* text, bool& out) {
  if (strcmp(text, "on") == 0 || strcmp(text, "1") == 0) {
    out = true;
    return true;
  }
  if (strcmp(text, "off") == 0 || strcmp(text, "0") == 0) {
    out = false;
    return true;
  }
  return false;
}

template <uint32_t Options::* kField>
bool Milliseconds(const char* v, Options& o) {
  uint64_t n = 0;
  if (!ParseNumber(v, false, 3600u * 1000, n) || n == 0) return false;
  o.*kField = static_cast<uint32_t>(n);
  return true;
}

template <bool Options::* kField>
bool Switch(const char* v, Options& o) {
  return ParseSwitch(v, o.*kField);
}

constexpr OptionRow kTable[] = {
    {"STATS", "exit|PATH|off", "none",
     "print statistics on stderr at exit, or write them to PATH as JSON; costs nothing before",
     [](const char* v, Options& o) {
       bool on = false;
       if (ParseSwitch(v, on)) return !on;  // "off" is no path; "on" does not say where to
       const size_t length = strlen(v);
       if (length == 0 || length >= sizeof(o.stats)) return false;
       memcpy(o.stats, v, length + 1);
       return true;
     }},
    {"STATS_INTERVAL", "seconds", "0 (only at exit)",
     "rewrite the JSON file every so often while the program runs",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, false, 86400, n)) return false;
       o.stats_interval_s = static_cast<uint32_t>(n);
       return true;
     }},
    {"CACHE", "auto|cpu|thread", "auto",
     "which front end; thread costs memory per thread, cpu needs rseq",
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
     "most memory one virtual CPU's (or thread's) cache may hold; less saves memory, more saves "
     "misses",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, true, uint64_t{1} << 30, n)) return false;
       o.cpu_cache_bytes = n;
       return true;
     }},
    {"RELEASE", "on|off", "on", "give free memory back by itself; off holds the peak for ever",
     Switch<&Options::release>},
    {"RELEASE_SHORT_MS", "ms", "10000", "demand estimate: look back for swings this far",
     Milliseconds<&Options::release_short_ms>},
    {"RELEASE_LONG_MS", "ms", "30000", "demand estimate: look back for the steady level this far",
     Milliseconds<&Options::release_long_ms>},
    {"RELEASE_PEAK_MS", "ms", "30000", "demand estimate: never more than the peak of this long",
     Milliseconds<&Options::release_peak_ms>},
    {"RELEASE_IDLE_MS", "ms", "3000",
     "the same for a program that rests: shorter gives back sooner",
     Milliseconds<&Options::release_idle_ms>},
    {"HUGEPAGES", "on|off", "on",
     "ask for hugepages by advice; off for programs that fork and write a lot",
     Switch<&Options::hugepages>},
    {"HEAP_LIMIT", "bytes", "0 (none)", "malloc returns null beyond this much heap",
     [](const char* v, Options& o) {
       uint64_t n = 0;
       if (!ParseNumber(v, true, UINT64_MAX, n)) return false;
       o.heap_limit = n;
       return true;
     }},
    {"BACKGROUND", "on|off", "on",
     "the background thread; without it memory goes back only on strata_release or malloc_trim",
     Switch<&Options::background>},
    {"ON_ERROR", "abort|ignore", "abort",
     "on a double or foreign free: end the program, or leave the block and go on",
     [](const char* v, Options& o) {
       if (strcmp(v, "abort") != 0 && strcmp(v, "ignore") != 0) return false;
       o.on_error = strcmp(v, "abort") == 0 ? OnError::kAbort : OnError::kIgnore;
       return true;
     }},
    {"VERBOSE", "on|off", "off", "one line on stderr at start that says what was found",
     Switch<&Options::verbose>},
};

// Variables that tools and tests of this project use and that the library must not complain about.
constexpr const char* kNotOurs[] = {"LIB", "BUILD", "HOME"};

bool NameIs(const char* assignment, const char* name, const char** value) {
  const size_t n = strlen(name);
  if (strncmp(assignment, name, n) != 0 || assignment[n] != '=') return false;
  *value = assignment + n + 1;
  return true;
}

void ReadOne(const char* assignment, Options& out) {
  const char* value = nullptr;
  for (const OptionRow& row : kTable) {
    if (!NameIs(assignment, row.name, &value)) continue;
    Options before = out;
    if (!row.parse(value, out)) {
      out = before;
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
    }
    return;
  }
  for (const char* name : kNotOurs) {
    if (NameIs(assignment, name, &value)) return;
  }
  char name[64] = {};
  for (size_t i = 0; i + 1 < sizeof(name) && assignment[i] != '=' && assignment[i] != '\0'; ++i)
    name[i] = assignment[i];
  Message().Text("unknown option STRATA_").Text(name).Text(" ignored").Send();
}

}  // namespace

const OptionRow* OptionTable(size_t* rows) {
  *rows = sizeof(kTable) / sizeof(kTable[0]);
  return kTable;
}

Options ReadOptions(char* const* environment, bool secure) {
  Options out;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (strncmp(*environment, kPrefix, kPrefixLength) == 0)
      ReadOne(*environment + kPrefixLength, out);
  }
  if (secure) {
    out.stats[0] = '\0';
    out.stats_interval_s = 0;
  }
  const bool to_file = out.stats[0] != '\0' && strcmp(out.stats, "exit") != 0;
  if (out.stats_interval_s != 0 && !to_file) {
    out.stats_interval_s = 0;
    Message().Text("STRATA_STATS_INTERVAL needs a path in STRATA_STATS; ignored").Send();
  }
  return out;
}

}  // namespace strata
