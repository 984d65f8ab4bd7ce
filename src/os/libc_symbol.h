// Functions that only newer versions of libc have, or that others interpose, by libc's own table
// of symbols: a reference, even a weak one, has the dynamic linker refuse the library where the
// version is missing. Takes no lock (Generic ABI, "Dynamic Section"; DT_GNU_HASH). Sits in os.
#pragma once

namespace strata {

// Null where there is none, and in a static program. At any time; a microsecond, so keep it.
void* FindInLibc(const char* name);

}  // namespace strata
