// Reading values out of text without allocating: options, run-time settings and control requests
// all take the same forms. Sits in base.
#pragma once

#include <cstdint>

namespace strata {

enum class NumberForm : uint8_t {
  kPlain,  // digits
  kSize,   // digits, then at most one of K M G T (powers of 1024), then at most "B" or "iB"
};

// False on anything else, on overflow, and on more than `max`; `out` is then left alone.
bool ParseNumber(const char* text, NumberForm form, uint64_t max, uint64_t& out);

// on, off, 1, 0.
bool ParseSwitch(const char* text, bool& out);

}  // namespace strata
