// Checks. STRATA_CHECK is always on and ends the process with one line on stderr; STRATA_DCHECK is
// for debug builds. Neither allocates. Sits at the bottom of everything.
#pragma once

namespace strata {

// Writes "strata: MESSAGE (FILE:LINE)" to stderr with one write(2) and aborts.
[[noreturn]] void Crash(const char* message, const char* file, int line);

}  // namespace strata

#define STRATA_LIKELY(x) __builtin_expect(!!(x), 1)
#define STRATA_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define STRATA_ALWAYS_INLINE inline __attribute__((always_inline))
#define STRATA_NOINLINE __attribute__((noinline))
// For what runs once, as the program starts: small rather than fast, for the code stays in memory.
#define STRATA_ONCE __attribute__((noinline, cold))
// A large variable, zero at the start, of which most programs touch nothing: it lies behind all
// others, so that those take few pages (cmake/StrataOrder.cmake).
#define STRATA_LARGE __attribute__((section(".bss.large")))

#define STRATA_CHECK(cond) \
  (STRATA_LIKELY(cond) ? (void)0 : ::strata::Crash("check failed: " #cond, __FILE__, __LINE__))

#ifdef NDEBUG
#define STRATA_DCHECK(cond) ((void)sizeof(!(cond)))
#else
#define STRATA_DCHECK(cond) STRATA_CHECK(cond)
#endif
