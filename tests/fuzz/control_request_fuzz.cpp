// The parser of control requests on lines of the fuzzer's making: whatever they hold, what it
// accepts is printable, cut off and in range, and reads the same when it is read again.
#include <cstring>
#include <string>

#include "base/check.h"
#include "control/request.h"

namespace {

using strata::ControlRequest;
using strata::ControlVerb;

bool Ended(const char* text, size_t capacity) { return memchr(text, 0, capacity) != nullptr; }

void CheckRanges(const ControlRequest& r) {
  STRATA_CHECK(Ended(r.name, sizeof(r.name)) && Ended(r.value, sizeof(r.value)));
  STRATA_CHECK(r.seconds <= ControlRequest::kMaxSeconds);
  STRATA_CHECK(r.verb <= ControlVerb::kVersion);
  STRATA_CHECK(strchr(r.name, ' ') == nullptr && strchr(r.value, ' ') == nullptr);
  for (const char* text : {r.name, r.value}) {
    for (; *text != '\0'; ++text) STRATA_CHECK(*text > 0x20 && *text < 0x7f);
  }
  STRATA_CHECK((r.verb == ControlVerb::kSet || r.verb == ControlVerb::kProfile) <=
               (r.name[0] != '\0'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of just that length, so that reading behind the end is found.
  const std::string line(reinterpret_cast<const char*>(data), size);
  const std::string exact(line.data(), line.size());
  ControlRequest first;
  const char* wrong = strata::ParseRequest(exact.data(), exact.size(), first);
  if (wrong != nullptr) {
    STRATA_CHECK(*wrong != '\0' && strlen(wrong) < 200 && strchr(wrong, '\n') == nullptr);
    return 0;
  }
  CheckRanges(first);
  ControlRequest second;
  const std::string spaced = exact.size() < strata::kMaxRequestLine ? exact + " " : exact;
  STRATA_CHECK(strata::ParseRequest(spaced.data(), spaced.size(), second) == nullptr);
  STRATA_CHECK(first.verb == second.verb && strcmp(first.name, second.name) == 0);
  return 0;
}
