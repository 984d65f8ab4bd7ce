// What a layer does about a free that cannot be right: one line on stderr, then abort. Used by the
// layers that find such a thing at no cost; Check finds more and may be told to go on.
#pragma once

#include <cstdlib>
#include <cstring>

#include "strata/raw_io.h"

namespace strata::layers {

[[noreturn, gnu::noinline, gnu::cold]] inline void DieOfMisuse(const char* where,
                                                               const char* what) {
  char line[160] = "strata";
  size_t used = strlen(line);
  const auto add = [&](const char* s) {
    for (; *s != '\0' && used < sizeof(line) - 1; ++s) line[used++] = *s;
  };
  add(where);
  add(": ");
  add(what);
  line[used++] = '\n';
  raw::Write(2, line, used);
  abort();
}

// A free or realloc of what is no block, or of one that was freed.
[[noreturn]] inline void DieOfDeadBlock() {
  DieOfMisuse("", "free of a pointer that is no live block (freed before?)");
}

}  // namespace strata::layers
