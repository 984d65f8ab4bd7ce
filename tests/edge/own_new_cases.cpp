// Operators new of the program's own, which keep a word of theirs behind each block: the forms that
// tell a block's size must not give that word away.
#include <malloc.h>
#include <string.h>

#include "strata/hot_cold.h"

#include "case.h"

namespace {
constexpr size_t kSizes[] = {1, 8, 100, 5000, 300'000};
constexpr uint64_t kGuard = 0x6775617264;
bool behind_malloc = true;
alignas(64) char arena[1 << 21];
size_t arena_used = 0;

void* Take(size_t size, size_t align) {
  char* p;
  if (behind_malloc) {
    p = static_cast<char*>(memalign(align, size + sizeof(kGuard)));
  } else {
    arena_used = (arena_used + align - 1) / align * align;
    p = arena + arena_used;
    arena_used += size + sizeof(kGuard);
    CHECK(arena_used <= sizeof(arena));
  }
  memcpy(p + size, &kGuard, sizeof(kGuard));
  return p;
}

void Use(__sized_ptr_t s, size_t size) {
  CHECK_AT(s.n >= size, size);
  memset(s.p, 1, s.n);
  uint64_t guard;
  memcpy(&guard, static_cast<char*>(s.p) + size, sizeof(guard));
  CHECK_AT(guard == kGuard, size);
}

void UseAll() {
  for (const size_t size : kSizes) {
    Use(__size_returning_new(size), size);
    Use(__size_returning_new_hot_cold(size, __hot_cold_t{1}), size);
    Use(__size_returning_new_aligned(size, std::align_val_t{64}), size);
    Use(__size_returning_new_aligned_hot_cold(size, std::align_val_t{64}, __hot_cold_t{1}), size);
  }
}
}  // namespace

void* operator new(size_t size) { return Take(size, 16); }
void* operator new(size_t size, std::align_val_t align) {
  return Take(size, static_cast<size_t>(align));
}

CASE(blocks_of_malloc_with_a_guard_behind) { UseAll(); }
CASE(blocks_from_elsewhere) {
  behind_malloc = false;
  UseAll();
}
