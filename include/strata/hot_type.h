// What a domain of objects that move has to know of a type: how one is moved, and ended, and
// whether both go by bytes. Inside of strata/hot_ptr.h.
#ifndef STRATA_HOT_TYPE_H_
#define STRATA_HOT_TYPE_H_

#include <strata/hot.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#ifndef STRATA_HOT_CHECK
#if defined(NDEBUG)
#define STRATA_HOT_CHECK 0
#elif defined(__OPTIMIZE__)
#define STRATA_HOT_CHECK 2
#else
#define STRATA_HOT_CHECK 1
#endif
#endif

namespace strata::hot_detail {

template <class T>
concept SaysItsBytesMove = requires { typename T::hot_trivially_relocatable; };
template <class T>
concept MovesItself = requires(T* p) {
  { T::hot_move(p, p) } noexcept;
};
template <class T>
inline constexpr bool kBytesMove =
    !MovesItself<T> && (std::is_trivially_copyable_v<T> || SaysItsBytesMove<T>);
template <class T>
concept Movable = !std::is_const_v<T> &&
                  (kBytesMove<T> || MovesItself<T> || std::is_nothrow_move_constructible_v<T>);

// Whether constructor arguments begin as uses-allocator construction has them.
template <class... Args>
inline constexpr bool kWithAllocator = false;
template <class First, class... Rest>
inline constexpr bool kWithAllocator<First, Rest...> =
    std::is_same_v<std::remove_cvref_t<First>, std::allocator_arg_t>;

template <class T>
void MoveOne(T* to, T* from) noexcept {
  if constexpr (MovesItself<T>) {
    T::hot_move(to, from);
  } else {
    ::new (static_cast<void*>(to)) T(std::move(*from));
    from->~T();
  }
}

// An array's length stands before it.
struct ArrayHead {
  size_t length;
};
template <class T>
inline constexpr size_t kHeadBytes = alignof(T) > sizeof(ArrayHead) ? alignof(T)
                                                                    : sizeof(ArrayHead);
template <class T>
T* Elements(void* block) {
  return reinterpret_cast<T*>(static_cast<char*>(block) + kHeadBytes<T>);
}

#if STRATA_HOT_CHECK
template <class T>
constexpr std::string_view Signature() {
  return __PRETTY_FUNCTION__;
}
// The type as the compiler writes it: gcc says what std::string_view is after it.
template <class T>
struct Name {
  static constexpr std::string_view whole = Signature<T>();
  static constexpr size_t from = whole.find("T = ") + 4, alias = whole.find("; std::string_view");
  static constexpr size_t to = alias < whole.size() ? alias : whole.rfind(']');
  static constexpr auto text = [] {
    std::array<char, to - from + 1> copy{};
    for (size_t i = from; i < to; ++i) copy[i - from] = whole[i];
    return copy;
  }();
};
#endif

// T or T[]: what the domain has to know of it.
template <class T>
struct Kind {
  using Element = T;
  static constexpr bool kPlain = kBytesMove<T> && std::is_trivially_destructible_v<T>;
  static void Move(void* to, void* from, size_t) {
    MoveOne(static_cast<T*>(to), static_cast<T*>(from));
  }
  static void Destroy(void* object, size_t) { static_cast<T*>(object)->~T(); }
};
template <class T>
struct Kind<T[]> {
  using Element = T;
  static constexpr bool kPlain = kBytesMove<T> && std::is_trivially_destructible_v<T>;
  static size_t Length(void* object) { return static_cast<ArrayHead*>(object)->length; }
  static void Move(void* to, void* from, size_t) {
    static_cast<ArrayHead*>(to)->length = Length(from);
    for (size_t i = 0; i < Length(to); ++i) MoveOne(Elements<T>(to) + i, Elements<T>(from) + i);
  }
  static void Destroy(void* object, size_t) { std::destroy_n(Elements<T>(object), Length(object)); }
};

template <class T>
const strata_hot_type* TypeOf() {
  constexpr bool moves = !kBytesMove<typename Kind<T>::Element>;
  constexpr bool ends = !std::is_trivially_destructible_v<typename Kind<T>::Element>;
#if STRATA_HOT_CHECK
  static const strata_hot_type type = {Name<T>::text.data(), moves ? Kind<T>::Move : nullptr,
                                       ends ? Kind<T>::Destroy : nullptr};
  return &type;
#else
  static constexpr strata_hot_type type = {"", moves ? Kind<T>::Move : nullptr,
                                           ends ? Kind<T>::Destroy : nullptr};
  return Kind<T>::kPlain ? nullptr : &type;
#endif
}

}  // namespace strata::hot_detail

#endif  // STRATA_HOT_TYPE_H_
