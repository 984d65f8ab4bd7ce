// What code that is the same everywhere needs of the machine it runs on, as a handful of inline
// functions and constants; one file an architecture has them. Longer things of one architecture lie
// in folders x86_64 and aarch64 beside what uses them, of which the build takes one. Sits in base.
#pragma once

#if defined(__x86_64__)
#include "base/arch/x86_64.h"
#elif defined(__aarch64__)
#include "base/arch/aarch64.h"
#else
#error "Strata runs on x86-64 and aarch64"
#endif
