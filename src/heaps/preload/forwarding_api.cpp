// strdup, strndup and reallocarray, which call malloc and realloc. In an object of their own so
// that they call the ones that the process uses, as libc's do: a program may bring its own.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

STRATA_EXPORT char* strndup(const char* s, size_t n) noexcept {
  const size_t length = strnlen(s, n);
  auto* copy = static_cast<char*>(malloc(length + 1));
  if (copy == nullptr) return nullptr;
  memcpy(copy, s, length);
  copy[length] = '\0';
  return copy;
}

STRATA_EXPORT char* strdup(const char* s) noexcept { return strndup(s, strlen(s)); }

STRATA_EXPORT void* reallocarray(void* p, size_t count, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(p, bytes);
}
