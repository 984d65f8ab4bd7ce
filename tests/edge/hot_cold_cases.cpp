// Every form of operator new with a hint, through the installed header.
#include <malloc.h>
#include <string.h>

#include <initializer_list>

#include "strata/hot_cold.h"

#include "case.h"

namespace {
constexpr __hot_cold_t kCold{1};
constexpr __hot_cold_t kHot{255};
constexpr std::align_val_t kAlign{64};

void Use(void* p, size_t size, size_t align) {
  CHECK(p != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(p) % align == 0);
  CHECK(malloc_usable_size(p) >= size);
  memset(p, 1, size);
}
}  // namespace

CASE(every_form_gives_a_block) {
  for (const __hot_cold_t hint : {kCold, kHot}) {
    for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{1} << 20}) {
      void* p[] = {::operator new(size, hint), ::operator new[](size, hint),
                   ::operator new(size, std::nothrow, hint),
                   ::operator new[](size, std::nothrow, hint)};
      for (void* each : p) {
        Use(each, size, 8);
        ::operator delete(each, size);
      }
      void* a[] = {::operator new(size, kAlign, hint), ::operator new[](size, kAlign, hint),
                   ::operator new(size, kAlign, std::nothrow, hint),
                   ::operator new[](size, kAlign, std::nothrow, hint)};
      for (void* each : a) {
        Use(each, size, 64);
        ::operator delete(each, size, kAlign);
      }
    }
  }
}

CASE(size_returning_forms_tell_the_whole_block) {
  for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{300'000}}) {
    for (const __sized_ptr_t s :
         {__size_returning_new(size), __size_returning_new_hot_cold(size, kCold)}) {
      CHECK(s.n >= size && s.n == malloc_usable_size(s.p));
      Use(s.p, s.n, 8);
      ::operator delete(s.p, s.n);
    }
    for (const __sized_ptr_t s : {__size_returning_new_aligned(size, kAlign),
                                  __size_returning_new_aligned_hot_cold(size, kAlign, kHot)}) {
      Use(s.p, s.n, 64);
      ::operator delete(s.p, kAlign);
    }
  }
}

CASE(too_much_is_refused_as_by_new) {
  const size_t huge = SIZE_MAX / 4 * 3;
  CHECK(::operator new(huge, std::nothrow, kCold) == nullptr);
  CHECK(::operator new[](huge, kAlign, std::nothrow, kCold) == nullptr);
  bool thrown = false;
  try {
    ::operator delete(::operator new(huge, kCold));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
}
