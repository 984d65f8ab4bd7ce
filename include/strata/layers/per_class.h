// PerClass: gives a C++ class a heap of its own: derive from PerClass<T, layers...> and `new T`
// takes from one such heap for all objects of T and of classes derived from it. Where the heap is
// for one size (FreeList on top), that is T's, and larger derived classes use the global operator
// new. The heap lives until the process ends.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <class T, class... Layers>
class PerClass {
  using H = typename internal::StackOf<Layers...>::type;
  static_assert(H::thread_safe, "PerClass: objects are made by any thread; put Locked on top");

 public:
  static void* operator new(size_t size) {
    if (!IsOurs(size)) return ::operator new(size);
    void* p = heap().allocate(size);
    if (p == nullptr) Fail();
    return p;
  }
  static void operator delete(void* p, size_t size) {
    if (p == nullptr) return;
    IsOurs(size) ? heap().deallocate(p, size) : ::operator delete(p, size);
  }
  static H& heap() {
    static_assert(alignof(T) <= H::alignment, "PerClass: the heap aligns to less than the class");
    alignas(H) static unsigned char storage[sizeof(H)];
    static H* made = ::new (storage) H();
    return *made;
  }

 private:
  static constexpr bool IsOurs(size_t size) { return !H::one_size || size == sizeof(T); }
  [[noreturn]] static void Fail() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    __builtin_abort();
#endif
  }
};

}  // namespace strata::layers
