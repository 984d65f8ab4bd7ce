// What a program built with ThreadSanitizer has to be told of objects that this library hands from
// thread to thread: the library itself is not instrumented, so its locks and atomics are not seen,
// and every object that moves would be called a race. Nothing without it, and in a library that is
// instrumented. Sits in base.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define STRATA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRATA_THREAD_SANITIZER 1
#endif
#endif

extern "C" {
void __tsan_acquire(void*) __attribute__((weak));
void __tsan_release(void*) __attribute__((weak));
}

namespace strata::race_detector {

inline bool IsThere() {
#ifdef STRATA_THREAD_SANITIZER
  return true;
#else
  return &__tsan_acquire != nullptr;
#endif
}

// What a thread does from After(x) on is ordered behind what another did up to its Before(x); an
// atomic load of x by the program's own code counts as After, too.
inline void Before([[maybe_unused]] const void* x) {
#ifndef STRATA_THREAD_SANITIZER
  if (__builtin_expect(&__tsan_release != nullptr, 0)) __tsan_release(const_cast<void*>(x));
#endif
}
inline void After([[maybe_unused]] const void* x) {
#ifndef STRATA_THREAD_SANITIZER
  if (__builtin_expect(&__tsan_acquire != nullptr, 0)) __tsan_acquire(const_cast<void*>(x));
#endif
}

}  // namespace strata::race_detector
