// The mark in an object that lies free in a cache (where frees wait for memory, in few of them:
// mark_looks.h): a free that finds it there is likely the
// object's second. It is random for each process, so that no data of the program's looks like it;
// malloc wipes it out. Whoever finds it still asks the caches (Holds), for a program may have
// copied it from memory that it freed, and in four bytes anything may lie by chance. glibc's tcache
// marks its chunks so (malloc/malloc.c, tcache_entry::key). Sits in cache.
//
// Objects that are fresh, and those that central lists hold, have none: those lists know what is
// free by their spans' bits, and touch no object.
//
// In the second half of the first word: a load of those bytes can be served from the store of
// whatever the program wrote there last, be it a pointer or an int; one of the whole word would
// wait for two smaller stores to reach the cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class FreedMark : uint32_t { kNone = 0 };
inline constexpr size_t kFreedMarkOffset = 4;

// From random bits. Not a value that memory is often filled with.
constexpr FreedMark MarkOf(uint64_t random) { return static_cast<FreedMark>(random | 1); }

// Programs access the word as they like, so not as an integer.
inline bool HasMark(const void* object, FreedMark mark) {
  return __builtin_memcmp(static_cast<const char*>(object) + kFreedMarkOffset, &mark,
                          sizeof(mark)) == 0;
}
inline void SetMark(void* object, FreedMark mark) {
  __builtin_memcpy(static_cast<char*>(object) + kFreedMarkOffset, &mark, sizeof(mark));
}
inline void WipeMark(void* object) { SetMark(object, FreedMark::kNone); }

}  // namespace strata
