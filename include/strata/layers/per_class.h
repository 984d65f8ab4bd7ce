// PerClass: gives a C++ class a heap of its own: derive from PerClass<T, layers...> and `new T`
// takes from one such heap for all objects of T and of classes derived from it. Where the heap is
// for one size (FreeList on top), that is T's, and larger derived classes use the global operator
// new, as do those that align to more than the heap. The heap lives until the process ends.
#pragma once

#include "strata/layers/heap.h"
#include "strata/out_of_memory.h"

namespace strata::layers {

template <class T, class... Layers>
class PerClass {
  using H = typename internal::StackOf<Layers...>::type;
  static_assert(H::thread_safe, "PerClass: objects are made by any thread; put Locked on top");

 public:
  static void* operator new(size_t size) {
    if (!IsOurs(size)) return ::operator new(size);
    return OrFail(Take(size));
  }
  static void* operator new(size_t size, std::align_val_t align) {
    if (!IsOurs(size, align)) return ::operator new(size, align);
    return OrFail(Take(size));
  }
  // What a constructor throws then loses the block: nobody tells its size.
  static void* operator new(size_t size, const std::nothrow_t& nothrow) noexcept {
    return IsOurs(size) ? Take(size) : ::operator new(size, nothrow);
  }
  static void* operator new(size_t size, std::align_val_t align,
                            const std::nothrow_t& nothrow) noexcept {
    return IsOurs(size, align) ? Take(size) : ::operator new(size, align, nothrow);
  }
  static void* operator new(size_t, void* at) noexcept { return at; }
  static void operator delete(void*, void*) noexcept {}
  static void operator delete(void* p, size_t size) {
    if (p == nullptr) return;
    IsOurs(size) ? Give(p, size) : ::operator delete(p, size);
  }
  static void operator delete(void* p, size_t size, std::align_val_t align) {
    if (p == nullptr) return;
    IsOurs(size, align) ? Give(p, size) : ::operator delete(p, size, align);
  }
  static H& heap() {
    static_assert(alignof(T) <= H::alignment, "PerClass: the heap aligns to less than the class");
    alignas(H) static unsigned char storage[sizeof(H)];
    static H* made = ::new (storage) H();
    return *made;
  }

 private:
  static constexpr bool IsOurs(size_t size) { return !internal::OneSize<H>() || size == sizeof(T); }
  // A derived class may align to more than the heap does.
  static constexpr bool IsOurs(size_t size, std::align_val_t align) {
    return static_cast<size_t>(align) <= H::alignment && IsOurs(size);
  }
  static void* Take(size_t size) { return heap().allocate(internal::ForOneSize<H>(size)); }
  static void Give(void* p, size_t size) { heap().deallocate(p, internal::ForOneSize<H>(size)); }
  static void* OrFail(void* p) {
    if (p == nullptr) strata::internal::ThrowOutOfMemory();
    return p;
  }
};

}  // namespace strata::layers
