// What the C++ classes do without memory: std::bad_alloc; in a program without exceptions, one line
// to stderr and the end.
#pragma once

#if defined(__cpp_exceptions)
#include <new>
#else
#include <cstdlib>

#include "strata/raw_io.h"
#endif

namespace strata::internal {

#if defined(__cpp_exceptions)
[[noreturn]] inline void ThrowOutOfMemory() { throw std::bad_alloc(); }
#else
[[noreturn]] inline void ThrowOutOfMemory() {
  constexpr char kLine[] = "strata: out of memory, and no exceptions to say so\n";
  raw::Write(2, kLine, sizeof kLine - 1);
  std::abort();
}
#endif

}  // namespace strata::internal
