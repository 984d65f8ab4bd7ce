// Whether the kernel places this process's stack and libraries by chance, as it does unless someone
// asked it not to (gdb, setarch -R): then what Strata places repeats, too, so that an address
// found in one run can be watched in the next. Sits in os.
#pragma once

#include <sys/auxv.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/units.h"

namespace strata {

// Asks no one: without randomization the stack ends at the end of the address space (on x86-64 a
// page below), and the last things on it are the program's path and eight bytes. By chance that
// is so once in four million starts.
inline bool AddressesAreRandom() {
  const auto* path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (path == nullptr) return true;
  const uintptr_t end = reinterpret_cast<uintptr_t>(path) + strlen(path) + 1 + sizeof(void*);
  return !std::has_single_bit(end) && !std::has_single_bit(end + kNativePageSize);
}

}  // namespace strata
