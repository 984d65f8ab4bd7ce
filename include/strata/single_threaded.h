// Whether the process has one thread, as far as libc says for nothing: glibc keeps a variable, musl
// says neither.
#pragma once

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace strata {

#if __has_include(<sys/single_threaded.h>)
inline bool IsSurelyAlone() { return __libc_single_threaded != 0; }
inline bool HasSurelyThreads() { return __libc_single_threaded == 0; }
#else
inline bool IsSurelyAlone() { return false; }
inline bool HasSurelyThreads() { return false; }
#endif

}  // namespace strata
