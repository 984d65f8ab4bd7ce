// Reading numbers and switches. See parse_value.h.
#include "base/parse_value.h"

#include <string.h>

namespace strata {

bool ParseNumber(const char* text, NumberForm form, uint64_t max, uint64_t& out) {
  if (*text < '0' || *text > '9') return false;
  uint64_t n = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    const auto digit = static_cast<uint64_t>(*text - '0');
    if (n > (UINT64_MAX - digit) / 10) return false;
    n = n * 10 + digit;
  }
  if (form == NumberForm::kSize && *text != '\0') {
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

}  // namespace strata
