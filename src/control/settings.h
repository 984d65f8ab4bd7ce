// What may be changed while the program runs: one table of names, each with what it takes, how it
// is set and how it is read. strata_set, strata_get and the control socket come here. Sits in
// malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/text_sink.h"

namespace strata {

// One row a setting. `set` returns 0, EINVAL when the value makes no sense, or another errno; it
// runs on any thread, at the same time as readers, with no lock held. `get` writes the value in a
// form that `set` takes.
struct SettingRow {
  const char* name;
  const char* takes;
  const char* help;
  int (*set)(const char* value);
  void (*get)(TextSink& sink);
};

const SettingRow* SettingTable(size_t* rows);
const SettingRow* FindSetting(const char* name);  // null: there is none

// 0; ENOENT: no such name; EINVAL: the value makes no sense; others: why it could not be done.
int ApplySetting(const char* name, const char* value);

}  // namespace strata
