// The option table: a row for each STRATA_* variable with its unit, default and cost, and how its
// value is read. options.h reads the environment by it, scripts/gen_options_doc.py prints it. Sits
// in malloc.
#pragma once

#include "malloc/options.h"
#include "os/memory_watch.h"

namespace strata {

// One row a variable: its name without STRATA_, what it takes, and how it is read into the struct.
struct OptionRow {
  const char* name;
  const char* takes;
  const char* fallback;  // the default, in words
  const char* help;      // cost, and when to touch it
  bool (*parse)(const char* value, Options& out);
};

// Calls `visit` with one row after the other, until it returns true; whether it did.
using OptionVisitor = bool (*)(void* state, const OptionRow& row);
bool VisitOptions(OptionVisitor visit, void* state);

// The set of options with that name, as NAME=VALUE up to a null; null where there is none.
const char* const* FindPreset(const char* name);

// False, and `out` as it was, when the text makes no sense.
bool ParseSoftLimit(const char* text, SoftLimitSetting& out);

}  // namespace strata
