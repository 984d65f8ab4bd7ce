// The C++ operators of libstrata-trace.so. An allocator may have its own, which do not pass through
// malloc; libstdc++'s do: then the block has been recorded when they return, and their free is
// announced. Exceptions of the next library's operators pass through these frames, which hold
// nothing. They are defined by their linker's names: the compiler's rules for operators, that the
// throwing ones never return null and so on, are the next library's affair. Sits in trace.
#include <stdlib.h>

#include "base/message.h"
#include "trace/next_malloc.h"
#include "trace/recorder.h"

#define TRACE_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata::trace {
namespace {

using Nothrow = const void*;  // a reference to std::nothrow

// A C program may load libstdc++ later, where RTLD_NEXT does not find it: then it is malloc. There
// is nothing to throw with.
void* FallBack(size_t size, size_t alignment) {
  void* p = alignment == 0 ? Next().malloc(size) : Next().memalign(alignment, size);
  if (p != nullptr) return p;
  Message().Text("operator new: no memory, and no libstdc++ to throw bad_alloc").Send();
  abort();
}

void* Recorded(void* p, size_t size, size_t alignment) {
  if (p == nullptr) return p;
  StartRecording();
  RecordAllocationOnce(alignment == 0 ? Operation::kMalloc : Operation::kAligned, p, size,
                       alignment);
  return p;
}

template <class Function, class... Rest>
void Delete(Function* next, void* p, Rest... rest) {
  if (p == nullptr || FromBuffer(p)) return;
  RecordFree(p);
  if (next == nullptr) return Next().free(p);
  ExpectFreeBelow(p);
  next(p, rest...);
  ExpectFreeBelow(nullptr);
}

}  // namespace
}  // namespace strata::trace

using strata::trace::Delete;
using strata::trace::FallBack;
using strata::trace::FindNext;
using strata::trace::Nothrow;
using strata::trace::Recorded;

// Looked up once, also where there is none; a race looks twice and finds the same.
#define TRACE_NEXT(name, type)                                                          \
  using Type = type;                                                                    \
  static Type* next = nullptr;                                                          \
  static bool looked = false;                                                           \
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {                                    \
    __atomic_store_n(&next, reinterpret_cast<Type*>(FindNext(name)), __ATOMIC_RELAXED); \
    __atomic_store_n(&looked, true, __ATOMIC_RELEASE);                                  \
  }

#define TRACE_NEW(name)                                              \
  TRACE_EXPORT void* name(size_t size) {                             \
    TRACE_NEXT(#name, void*(size_t));                                \
    return Recorded(next ? next(size) : FallBack(size, 0), size, 0); \
  }
#define TRACE_NEW_NOTHROW(name)                                      \
  TRACE_EXPORT void* name(size_t size, Nothrow tag) {                \
    TRACE_NEXT(#name, void*(size_t, Nothrow));                       \
    return Recorded(next ? next(size, tag) : malloc(size), size, 0); \
  }
#define TRACE_NEW_ALIGNED(name)                                                                 \
  TRACE_EXPORT void* name(size_t size, size_t alignment) {                                      \
    TRACE_NEXT(#name, void*(size_t, size_t));                                                   \
    return Recorded(next ? next(size, alignment) : FallBack(size, alignment), size, alignment); \
  }
#define TRACE_NEW_ALIGNED_NOTHROW(name)                                                       \
  TRACE_EXPORT void* name(size_t size, size_t alignment, Nothrow tag) {                       \
    TRACE_NEXT(#name, void*(size_t, size_t, Nothrow));                                        \
    return Recorded(next ? next(size, alignment, tag) : aligned_alloc(alignment, size), size, \
                    alignment);                                                               \
  }
TRACE_NEW(_Znwm)
TRACE_NEW(_Znam)
TRACE_NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
TRACE_NEW_NOTHROW(_ZnamRKSt9nothrow_t)
TRACE_NEW_ALIGNED(_ZnwmSt11align_val_t)
TRACE_NEW_ALIGNED(_ZnamSt11align_val_t)
TRACE_NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
TRACE_NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

#define TRACE_DELETE(name)          \
  TRACE_EXPORT void name(void* p) { \
    TRACE_NEXT(#name, void(void*)); \
    Delete(next, p);                \
  }
// With one word more: a size, an alignment, or the tag.
#define TRACE_DELETE_1(name)                     \
  TRACE_EXPORT void name(void* p, size_t word) { \
    TRACE_NEXT(#name, void(void*, size_t));      \
    Delete(next, p, word);                       \
  }
#define TRACE_DELETE_2(name)                                   \
  TRACE_EXPORT void name(void* p, size_t word, size_t other) { \
    TRACE_NEXT(#name, void(void*, size_t, size_t));            \
    Delete(next, p, word, other);                              \
  }
TRACE_DELETE(_ZdlPv)
TRACE_DELETE(_ZdaPv)
TRACE_DELETE_1(_ZdlPvm)
TRACE_DELETE_1(_ZdaPvm)
TRACE_DELETE_1(_ZdlPvRKSt9nothrow_t)
TRACE_DELETE_1(_ZdaPvRKSt9nothrow_t)
TRACE_DELETE_1(_ZdlPvSt11align_val_t)
TRACE_DELETE_1(_ZdaPvSt11align_val_t)
TRACE_DELETE_2(_ZdlPvmSt11align_val_t)
TRACE_DELETE_2(_ZdaPvmSt11align_val_t)
TRACE_DELETE_2(_ZdlPvSt11align_val_tRKSt9nothrow_t)
TRACE_DELETE_2(_ZdaPvSt11align_val_tRKSt9nothrow_t)
