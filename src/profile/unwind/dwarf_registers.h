// DWARF's numbers of the three registers that a walk follows, and what it knows of the code that
// compilers and linkers write for an architecture. Sits in profile/unwind.
#pragma once

#if defined(__aarch64__)
#include "profile/unwind/aarch64/dwarf_registers.h"
#else
#include "profile/unwind/x86_64/dwarf_registers.h"
#endif
