// How to step from one frame to its caller, in 30 bits: what is left of a DWARF row once only the
// return address and the frame pointer matter. 30 bits, because the walk's cache keeps a rule and
// the rest of the address it is for in one word. Each architecture has a rule of its own, since
// where a return address lies is said by the rule in one and always the same in another. Sits in
// profile/unwind.
#pragma once

#if defined(__aarch64__)
#include "profile/unwind/aarch64/unwind_rule.h"
#else
#include "profile/unwind/x86_64/unwind_rule.h"
#endif

namespace strata {

struct FoundRule {
  UnwindRule rule;
  bool in_module = false;
  bool table_missing = false;  // the code is known, its rules were not read yet
};

}  // namespace strata
