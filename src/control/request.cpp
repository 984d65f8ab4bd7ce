// The parser of control requests. See request.h.
#include "control/request.h"

#include <string.h>

#include "base/parse_value.h"

namespace strata {
namespace {

// The line as words between single or repeated spaces.
class Words {
 public:
  Words(const char* line, size_t length) : at_(line), end_(line + length) {}

  // The next word, cut off with a zero byte in `out`. False if there is none or it does not fit;
  // the two differ by done().
  template <size_t N>
  bool Next(char (&out)[N]) {
    SkipSpaces();
    const char* start = at_;
    while (at_ != end_ && *at_ != ' ') ++at_;
    const auto n = static_cast<size_t>(at_ - start);
    if (n == 0 || n >= N) return false;
    memcpy(out, start, n);
    out[n] = '\0';
    return true;
  }

  bool done() {
    SkipSpaces();
    return at_ == end_;
  }

 private:
  void SkipSpaces() {
    while (at_ != end_ && *at_ == ' ') ++at_;
  }

  const char* at_;
  const char* end_;
};

const char* ParseStats(Words& words, ControlRequest& out) {
  char format[16] = "json";
  if (!words.done() && !words.Next(format)) format[0] = '\0';
  if (strcmp(format, "json") == 0) {
    out.format = StatsFormat::kJson;
  } else if (strcmp(format, "text") == 0) {
    out.format = StatsFormat::kText;
  } else if (strcmp(format, "prometheus") == 0) {
    out.format = StatsFormat::kPrometheus;
  } else {
    return "stats takes json, text or prometheus";
  }
  return nullptr;
}

const char* ParseProfile(Words& words, ControlRequest& out) {
  if (!words.Next(out.name)) return "profile takes a kind, and seconds";
  if (words.done()) return nullptr;
  char text[16];
  uint64_t n = 0;
  if (!words.Next(text) || !ParseNumber(text, NumberForm::kPlain, ControlRequest::kMaxSeconds, n)) {
    return "profile takes at most 3600 seconds";
  }
  out.seconds = static_cast<uint32_t>(n);
  return nullptr;
}

const char* ParseRelease(Words& words, ControlRequest& out) {
  if (words.done()) return nullptr;
  char text[32];
  uint64_t n = 0;
  if (!words.Next(text) || !ParseNumber(text, NumberForm::kSize, UINT64_MAX, n))
    return "release takes bytes, with K, M, G or T";
  out.bytes = n;
  return nullptr;
}

const char* ParseSet(Words& words, ControlRequest& out) {
  constexpr const char* kWrong = "set takes NAME=VALUE";
  char pair[ControlRequest::kNameBytes + ControlRequest::kValueBytes];
  if (!words.Next(pair)) return kWrong;
  const char* equals = strchr(pair, '=');
  if (equals == nullptr) return kWrong;
  const auto name_length = static_cast<size_t>(equals - pair);
  const size_t value_length = strlen(equals + 1);
  if (name_length == 0 || name_length >= sizeof(out.name) || value_length >= sizeof(out.value))
    return kWrong;
  memcpy(out.name, pair, name_length);
  out.name[name_length] = '\0';
  memcpy(out.value, equals + 1, value_length + 1);
  return nullptr;
}

const char* ParseGet(Words& words, ControlRequest& out) {
  if (words.done() || words.Next(out.name)) return nullptr;
  return "get takes a name";
}

const char* ParseNothing(Words&, ControlRequest&) { return nullptr; }

struct Verb {
  const char* name;
  ControlVerb verb;
  const char* (*parse)(Words&, ControlRequest&);
};

constexpr Verb kVerbs[] = {
    {"stats", ControlVerb::kStats, ParseStats},
    {"profile", ControlVerb::kProfile, ParseProfile},
    {"release", ControlVerb::kRelease, ParseRelease},
    {"set", ControlVerb::kSet, ParseSet},
    {"get", ControlVerb::kGet, ParseGet},
    {"options", ControlVerb::kOptions, ParseNothing},
    {"version", ControlVerb::kVersion, ParseNothing},
};

}  // namespace

const char* ParseRequest(const char* line, size_t length, ControlRequest& out) {
  if (length > kMaxRequestLine) return "the request is longer than 1024 bytes";
  for (size_t i = 0; i < length; ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c < 0x20 || c >= 0x7f) return "the request holds something else than printable ASCII";
  }
  Words words(line, length);
  char name[16];
  if (!words.Next(name)) return "requests: stats profile release set get options version";
  for (const Verb& v : kVerbs) {
    if (strcmp(v.name, name) != 0) continue;
    out = {};
    out.verb = v.verb;
    if (const char* wrong = v.parse(words, out)) return wrong;
    return words.done() ? nullptr : "there is more on the line than the request takes";
  }
  return "no such request: stats profile release set get options version";
}

}  // namespace strata
