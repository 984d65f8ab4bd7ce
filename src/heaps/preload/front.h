// Turns a heap built from layers into a process's malloc: what c_exports.inc and cxx_exports.inc
// call, over one instance of the heap that needs no start. It lies in zero or constant-initialised
// memory, so calls before any constructor find it ready, and it is never destroyed, so calls after
// the last destructor do too. It has no thread-local state of its own; a heap that has some must
// not need more than a few dozen bytes, nor a destructor. Sits in heaps; strata/as_malloc.h puts it
// together with them.
#pragma once

#include <errno.h>
#include <pthread.h>

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "heaps/preload/deep_bind.h"
#include "os/file_list_lock.h"
#include "strata/layers/heap.h"
#include "strata/layers/thread/locked.h"

// The name by which `strata run --heap` knows the library, what it says to a deep load, and its
// fork handlers. Registered early, so that most other handlers run outside of ours; those of
// libraries whose constructors ran before run between ours, and pass through our locks (FutexLock).
#define STRATA_PRELOAD_HEAP(name)                                                         \
  extern "C" __attribute__((visibility("default"))) const char strata_heap_name[] = name; \
  namespace {                                                                             \
  __attribute__((constructor(101))) void RegisterForkHandlers() { Front::HandleForks(); } \
  }                                                                                       \
  bool strata::MayBindDeep() { return false; }

namespace strata::preload {

// Never destroyed.
template <class T>
struct Forever {
  constexpr Forever() : it() {}
  ~Forever() {}
  union {
    T it;
  };
};

template <class H>
class Front {
  static_assert(H::thread_safe,
                "Front: a process has threads; put Locked or LockedWhenShared on top");
  static_assert(layers::SizedHeap<H>,
                "Front: free() is told no size; put SizeHeader or ClassHeader below the lock");
  static_assert(
      layers::AlignedHeap<H>,
      "Front needs a heap that aligns, such as SizeHeader, ClassHeader or Coalesce make one");
  static_assert(H::alignment >= 16,
                "Front needs blocks aligned to 16 bytes, as the C library's are");

 public:
  // For what the layers have of their own: layer<Count>(Front::heap()).
  STRATA_ALWAYS_INLINE static H& heap() { return g_heap.it; }

  STRATA_ALWAYS_INLINE static void* Allocate(size_t size) {
    if constexpr (layers::KeepingHeap<H>) {
      void* p = AllocateKept(size);
      return STRATA_LIKELY(p != nullptr) ? p : AllocateSlow(size);
    } else {
      void* p = heap().allocate(size);
      return STRATA_LIKELY(p != nullptr) ? p : OutOfMemory();
    }
  }
  // The part of Allocate that calls nothing. Null: Allocate may have a block all the same.
  STRATA_ALWAYS_INLINE static void* AllocateKept(size_t size)
    requires layers::KeepingHeap<H>
  {
    return heap().allocate_kept(size);
  }
  // These and Reallocate are inlined so that a heap which asks from where it was called hears of
  // the program, not of a function of the library.
  STRATA_ALWAYS_INLINE static void* AllocateAligned(size_t size, size_t align) {
    if (align <= H::alignment) return Allocate(size);
    if (size > layers::kMaxRequest || align > kMaxAlign) return OutOfMemory();
    void* p = heap().allocate(size, align);
    return p != nullptr ? p : OutOfMemory();
  }
  STRATA_ALWAYS_INLINE static void* AllocateZeroed(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return OutOfMemory();
    void* p = Allocate(bytes);
    if (p == nullptr) return nullptr;
    if constexpr (layers::ZeroKnowingHeap<H>) {
      if (heap().reads_zero(p)) return p;
    }
    return memset(p, 0, bytes);
  }
  STRATA_ALWAYS_INLINE static void Free(void* p) {
    if (STRATA_LIKELY(p != nullptr)) heap().deallocate(p);
  }
  static void FreeSized(void* p, size_t) { Free(p); }
  static void FreeSizedAligned(void* p, size_t, size_t) { Free(p); }
  static void FreeResized(void* p, size_t) { Free(p); }
  static size_t UsableSize(void* p) { return p == nullptr ? 0 : heap().size_of(p); }

  STRATA_ALWAYS_INLINE static void* Reallocate(void* p, size_t size) {
    if (p == nullptr) return Allocate(size);
    if (size == 0) {
      Free(p);
      return nullptr;
    }
    if (size > layers::kMaxRequest) return OutOfMemory();
    const size_t held = heap().size_of(p);
    if (void* same = ResizeInPlace(p, held, size)) return same;
    void* to = Allocate(size);
    if (to == nullptr) return size <= held ? p : nullptr;
    memcpy(to, p, size < held ? size : held);
    Free(p);
    return to;
  }

  static void HandleForks() { pthread_atfork(BeforeFork, AfterFork, AfterForkInChild); }

 private:
  static constexpr size_t kMaxAlign = size_t{1} << 30;

  STRATA_NOINLINE static void* AllocateSlow(size_t size) {
    void* p = heap().allocate(size);
    return p != nullptr ? p : OutOfMemory();
  }
  STRATA_NOINLINE static void* OutOfMemory() {
    errno = ENOMEM;
    return nullptr;
  }

  // Null: the block has to be copied. It stays while at least half of it stays in use; a heap that
  // can cut or extend it does that first.
  static void* ResizeInPlace(void* p, size_t held, size_t size) {
    if constexpr (layers::ResizableHeap<H>) {
      if (heap().resize(p, size)) return p;
    }
    if (size <= held && size >= held / 2) return p;
    if constexpr (layers::RemappingHeap<H>) {
      return heap().remap(p, size);
    }
    return nullptr;
  }

  // Before a fork every lock is taken, so that the child finds the heap whole; both sides then let
  // go. The child's only thread is the one that took them.
  static void BeforeFork() {
    FileListLock::Acquire();
    heap().visit_locks([](auto& lock) { lock.lock_for_fork(); });
    layers::FutexLock::begin_fork();
  }
  static void AfterFork() {
    Unlock();
    FileListLock::Release();
  }
  static void AfterForkInChild() {
    Unlock();
    FileListLock::ResetInChild();
  }
  static void Unlock() {
    layers::FutexLock::end_fork();
    heap().visit_locks([](auto& lock) { lock.unlock_after_fork(); });
  }

  static Forever<H> g_heap;
};

template <class H>
constinit Forever<H> Front<H>::g_heap;

}  // namespace strata::preload
