// PerClass: gives a C++ class a heap of its own: derive from PerClass<T, H> and `new T` takes from
// one H for all objects of T and of classes derived from it. The heap lives until the process ends.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <class T, Heap H>
class PerClass {
  static_assert(H::thread_safe, "PerClass: objects are made by any thread; put Locked on top");

 public:
  static void* operator new(size_t size) {
    void* p = heap().allocate(size);
    if (p == nullptr) Fail();
    return p;
  }
  static void operator delete(void* p, size_t size) {
    if (p != nullptr) heap().deallocate(p, size);
  }
  static H& heap() {
    static_assert(alignof(T) <= H::alignment, "PerClass: the heap aligns to less than the class");
    alignas(H) static unsigned char storage[sizeof(H)];
    static H* made = ::new (storage) H();
    return *made;
  }

 private:
  [[noreturn]] static void Fail() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    __builtin_abort();
#endif
  }
};

}  // namespace strata::layers
