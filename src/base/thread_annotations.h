// Clang's thread-safety attributes under short names; nothing under gcc. Sits in base; every lock
// uses them.
#pragma once

#if defined(__clang__)
#define STRATA_TSA(x) __attribute__((x))
#else
#define STRATA_TSA(x)
#endif

#define STRATA_CAPABILITY(x) STRATA_TSA(capability(x))
#define STRATA_SCOPED_CAPABILITY STRATA_TSA(scoped_lockable)
#define STRATA_GUARDED_BY(x) STRATA_TSA(guarded_by(x))
#define STRATA_REQUIRES(...) STRATA_TSA(requires_capability(__VA_ARGS__))
#define STRATA_EXCLUDES(...) STRATA_TSA(locks_excluded(__VA_ARGS__))
#define STRATA_ACQUIRE(...) STRATA_TSA(acquire_capability(__VA_ARGS__))
#define STRATA_TRY_ACQUIRE(...) STRATA_TSA(try_acquire_capability(__VA_ARGS__))
#define STRATA_RELEASE(...) STRATA_TSA(release_capability(__VA_ARGS__))
#define STRATA_RETURN_CAPABILITY(x) STRATA_TSA(lock_returned(x))
#define STRATA_NO_TSA STRATA_TSA(no_thread_safety_analysis)
