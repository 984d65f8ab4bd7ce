// What calls of the program's own functions can return, and which never come back, by the constants
// that they pass: `xopen` dies rather than return a negative number, `report(FATAL, ...)` exits.
// Noted on the calls as attributes, which ranges (ranges.h) and Program::ends read.
#pragma once

#include "program.h"

namespace lint {

// Whether a call was found that does not come back.
bool note_returns(Program& program, const Progress& progress);

}  // namespace lint
