// The out-of-line half of check.h: says one line and aborts, without allocating.
#include "base/check.h"

#include <cstdlib>

#include "base/message.h"

namespace strata {

void Crash(const char* message, const char* file, int line) {
  Message()
      .Text(message)
      .Text(" (")
      .Text(file)
      .Text(":")
      .Number(static_cast<size_t>(line))
      .Text(")")
      .Send();
  abort();
}

}  // namespace strata
