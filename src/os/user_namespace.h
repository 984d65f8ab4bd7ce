// Whether user numbers that the kernel reports mean what they say. Sits in os.
#pragma once

namespace strata {

// Whether this process's user namespace maps every user to itself, as the first one does. Elsewhere
// all users without a name of their own look like one, the overflow user. False also where
// /proc/self/uid_map can't be read. Needs a free descriptor.
bool EveryUserHasAName();

}  // namespace strata
