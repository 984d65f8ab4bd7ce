// The version of this library: one place, read by CMake too.
#pragma once

#define STRATA_VERSION "0.9.0"
