// The system's mode of transparent hugepages. Sits in os.
#pragma once

#include <cstdint>

namespace strata {

enum class ThpMode : uint8_t { kUnknown, kAlways, kMadvise, kNever };

// As it is now, read without allocating; unknown where no file may be opened.
ThpMode ReadThpMode();
const char* NameOf(ThpMode mode);

}  // namespace strata
