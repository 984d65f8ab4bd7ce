// The variables by which users set Strata's options. Sits in base.
#pragma once

namespace strata {

// Whether the process runs with more rights than its caller (setuid, file capabilities), whose the
// variables are then.
bool RunsForAnother();

// Takes STRATA_* and STRATATRACE_* out of `environment` (may be null), in place, as libc does with
// its own in such a process. What that starts has the same rights, and nothing to tell it that the
// variables are not to be trusted.
void DropOwnVariables(char** environment);

}  // namespace strata
