// For musl, where nothing is looked for that its every version does not have. See libc_symbol.h.
#include "os/libc_symbol.h"

namespace strata {

void* FindInLibc(const char*) { return nullptr; }

}  // namespace strata
