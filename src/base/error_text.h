// What an error number means, in a constant text: nothing is allocated, translated or formatted.
// Sits in base.
#pragma once

#include <string.h>

namespace strata {

#ifdef __GLIBC__
inline const char* ErrorText(int error) { return strerrordesc_np(error); }
#else
inline const char* ErrorText(int error) { return strerror(error); }  // musl's are all constant
#endif

}  // namespace strata
