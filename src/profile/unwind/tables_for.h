// Which files get an unwind table at a refresh. Sits in profile/unwind.
#pragma once

#include <cstdint>

namespace strata {

enum class TablesFor : uint8_t {
  kAllCode,
  kCodeMet,  // by several walks: where walks can do without
};

}  // namespace strata
