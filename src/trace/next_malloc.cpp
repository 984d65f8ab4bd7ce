// Looks up the functions that are recorded. See next_malloc.h.
#include "trace/next_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "base/errno_keeper.h"
#include "base/message.h"

namespace strata::trace {
namespace {

// What dlsym asks for while it finds malloc; a message of its error, at most.
alignas(64) constinit char g_buffer[32 << 10];
constinit std::atomic<size_t> g_used{0};

void* BufferMalloc(size_t size) {
  const size_t bytes = (size + 15) & ~size_t{15};
  if (bytes < size || bytes > sizeof(g_buffer)) return nullptr;
  const size_t at = g_used.fetch_add(bytes, std::memory_order_relaxed);
  return at + bytes <= sizeof(g_buffer) ? g_buffer + at : nullptr;
}

void* BufferCalloc(size_t n, size_t size) {
  size_t bytes;
  return __builtin_mul_overflow(n, size, &bytes) ? nullptr : BufferMalloc(bytes);
}

void* BufferRealloc(void* p, size_t size) {
  void* fresh = BufferMalloc(size);
  // The old size is not known; whatever lies behind in the buffer is readable.
  if (fresh != nullptr && p != nullptr) {
    const auto left = static_cast<size_t>(g_buffer + sizeof(g_buffer) - static_cast<char*>(p));
    memmove(fresh, p, size < left ? size : left);
  }
  return fresh;
}

void* BufferMemalign(size_t, size_t size) { return BufferMalloc(size); }
int BufferPosixMemalign(void** out, size_t, size_t size) {
  *out = BufferMalloc(size);
  return *out == nullptr ? ENOMEM : 0;
}

constinit const NextMalloc g_early = {
    BufferMalloc,        BufferCalloc, BufferRealloc, [](void*) {}, BufferMemalign, BufferMemalign,
    BufferPosixMemalign, BufferMalloc, BufferMalloc,  nullptr,      nullptr,
};
constinit NextMalloc g_next{};
enum class State { kUnknown, kLooking, kKnown };
constinit std::atomic<State> g_state{State::kUnknown};

template <class Function>
void Find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(FindNext(name));
}

void LookUp() {
  const ErrnoKeeper keep_errno;
  Find(g_next.malloc, "malloc");
  Find(g_next.calloc, "calloc");
  Find(g_next.realloc, "realloc");
  Find(g_next.free, "free");
  Find(g_next.memalign, "memalign");
  Find(g_next.aligned_alloc, "aligned_alloc");
  Find(g_next.posix_memalign, "posix_memalign");
  Find(g_next.valloc, "valloc");
  Find(g_next.pvalloc, "pvalloc");
  Find(g_next.free_sized, "free_sized");
  Find(g_next.free_aligned_sized, "free_aligned_sized");
  if (g_next.malloc == nullptr || g_next.calloc == nullptr || g_next.realloc == nullptr ||
      g_next.free == nullptr) {
    Message().Text("cannot record a trace: there is no malloc to record").Send();
    abort();
  }
}

}  // namespace

void* FindNext(const char* name) { return dlsym(RTLD_NEXT, name); }

const NextMalloc& Next() {
  if (g_state.load(std::memory_order_acquire) == State::kKnown) return g_next;
  State expected = State::kUnknown;
  if (!g_state.compare_exchange_strong(expected, State::kLooking)) return g_early;
  LookUp();
  g_state.store(State::kKnown, std::memory_order_release);
  return g_next;
}

bool FromBuffer(const void* p) {
  return static_cast<const char*>(p) >= g_buffer &&
         static_cast<const char*>(p) < g_buffer + sizeof(g_buffer);
}

}  // namespace strata::trace
