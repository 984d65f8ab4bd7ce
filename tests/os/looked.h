// For tests of what makes calls that a filter may forbid: before main the process has looked that
// there is none, as the library does when it first wants more than the loader's calls.
#pragma once

#include "os/confinement.h"

namespace strata::test {

inline const bool g_looked = (FindInheritedConfinement(), true);

}  // namespace strata::test
