// Finding sanitizers and valgrind, and the next allocator. See stand_down.h.
#include "malloc/stand_down.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "base/arch.h"
#include "base/check.h"
#include "base/units.h"

extern "C" {
void __asan_init() __attribute__((weak));
void __hwasan_init() __attribute__((weak));
void __msan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
void __lsan_init() __attribute__((weak));
}

namespace strata {

NextAllocator g_next;

namespace {

alignas(16) STRATA_LARGE char g_early[16 << 10];
std::atomic<size_t> g_early_used{0};

bool UnderValgrind() {
  constexpr uint64_t kRunningOnValgrind = 0x1001;
  return arch::AskValgrind({kRunningOnValgrind, 0, 0, 0, 0, 0}) != 0;
}

template <class F>
void Find(F& out, const char* name) {
  out = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
  STRATA_CHECK(out != nullptr);
}

}  // namespace

bool MustStandDown() {
  return &__asan_init != nullptr || &__hwasan_init != nullptr || &__msan_init != nullptr ||
         &__tsan_init != nullptr || &__lsan_init != nullptr || UnderValgrind();
}

void StandDown() {
  Find(g_next.malloc, "malloc");
  Find(g_next.free, "free");
  Find(g_next.calloc, "calloc");
  Find(g_next.realloc, "realloc");
  Find(g_next.memalign, "memalign");
  Find(g_next.usable_size, "malloc_usable_size");
}

void FreeByLibc(void* p) {
  void (*libc_free)(void*);
  Find(libc_free, "free");
  libc_free(p);
}

void* EarlyAllocate(size_t size) {
  const size_t bytes = RoundUp(size == 0 ? 1 : size, 16);
  if (bytes > sizeof(g_early)) return nullptr;
  const size_t at = g_early_used.fetch_add(bytes, std::memory_order_relaxed);
  return at + bytes <= sizeof(g_early) ? g_early + at : nullptr;
}

size_t EarlySize(const void* p, size_t wanted) {
  const auto left = static_cast<size_t>(g_early + sizeof(g_early) - static_cast<const char*>(p));
  return wanted < left ? wanted : left;
}

bool IsEarly(const void* p) { return p >= g_early && p < g_early + sizeof(g_early); }

}  // namespace strata
