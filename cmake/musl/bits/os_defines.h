// Stands before libstdc++'s file of that name, which asks for glibc's version: musl has none.
#pragma once

#include <features.h>
#define __GLIBC_PREREQ(major, minor) 0
#include_next <bits/os_defines.h>
