// The exported functions of libstrata-trace.so: each calls the next library's and has the recorder
// note what it did. The functions that return a new block are recorded after they return, those
// that take one back before they are called: so no two threads ever have one address. Sits in
// trace.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/next_malloc.h"
#include "trace/recorder.h"

#define TRACE_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata::trace {
namespace {

void* Allocated(Operation op, void* p, size_t size, size_t alignment = 0) {
  if (p != nullptr && !FromBuffer(p)) {
    StartRecording();
    RecordAllocation(op, p, size, alignment);
  }
  return p;
}

[[gnu::constructor]] void Begin() {
  Next();
  StartRecording();
}
[[gnu::destructor]] void End() { FinishRecording(); }

}  // namespace
}  // namespace strata::trace

using strata::trace::Allocated;
using strata::trace::FromBuffer;
using strata::trace::Next;
using strata::trace::Operation;

TRACE_EXPORT void* malloc(size_t size) {
  return Allocated(Operation::kMalloc, Next().malloc(size), size);
}

TRACE_EXPORT void* calloc(size_t n, size_t size) {
  return Allocated(Operation::kCalloc, Next().calloc(n, size), n * size);
}

TRACE_EXPORT void free(void* p) {
  if (p == nullptr || FromBuffer(p)) return;
  strata::trace::RecordFree(p);
  Next().free(p);
}

TRACE_EXPORT void* realloc(void* p, size_t size) {
  if (p != nullptr && FromBuffer(p)) {
    void* fresh = malloc(size);
    const char* end = static_cast<char*>(p);
    size_t n = 0;
    while (n < size && FromBuffer(end + n)) ++n;  // the old size is not known
    return fresh == nullptr ? nullptr : memcpy(fresh, p, n);
  }
  const uint64_t object = strata::trace::BeginRealloc(p);
  void* fresh = Next().realloc(p, size);
  strata::trace::EndRealloc(object, p, fresh, size);
  return fresh;
}

TRACE_EXPORT void* memalign(size_t alignment, size_t size) {
  return Allocated(Operation::kAligned, Next().memalign(alignment, size), size, alignment);
}

TRACE_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  return Allocated(Operation::kAligned, Next().aligned_alloc(alignment, size), size, alignment);
}

TRACE_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  const int error = Next().posix_memalign(out, alignment, size);
  if (error == 0) Allocated(Operation::kAligned, *out, size, alignment);
  return error;
}

TRACE_EXPORT void* valloc(size_t size) {
  return Allocated(Operation::kAligned, Next().valloc(size), size, 4096);
}

TRACE_EXPORT void* pvalloc(size_t size) {
  return Allocated(Operation::kAligned, Next().pvalloc(size), size, 4096);
}

TRACE_EXPORT void cfree(void* p) { free(p); }

TRACE_EXPORT void free_sized(void* p, size_t size) {
  if (Next().free_sized == nullptr || p == nullptr || FromBuffer(p)) return free(p);
  strata::trace::RecordFree(p);
  strata::trace::ExpectFreeBelow(p);
  Next().free_sized(p, size);
  strata::trace::ExpectFreeBelow(nullptr);
}

TRACE_EXPORT void free_aligned_sized(void* p, size_t alignment, size_t size) {
  if (Next().free_aligned_sized == nullptr || p == nullptr || FromBuffer(p)) return free(p);
  strata::trace::RecordFree(p);
  strata::trace::ExpectFreeBelow(p);
  Next().free_aligned_sized(p, alignment, size);
  strata::trace::ExpectFreeBelow(nullptr);
}

// The ends of a process that run no destructor.
TRACE_EXPORT void _exit(int status) {
  strata::trace::FinishRecording();
  for (;;) syscall(SYS_exit_group, status);
}
TRACE_EXPORT void _Exit(int status) { _exit(status); }
