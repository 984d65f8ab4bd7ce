// Smart pointers to objects that move: hot ones together, cold ones where the kernel can take them.
// Over strata/hot.h, which says what an operation is, what threads may do and how a guide looks;
// docs/hotness.md shows a structure built on it.
//
//   strata::hot_domain domain{strata::hot_domain::options{}};
//   strata::hot_ptr<Node> p = domain.make<Node>(args);
//   { strata::hot_scope op(domain);
//     Node& n = *p.get(op); }
//
// A type that is not trivially copyable must be nothrow move constructible, say that its bytes may
// be copied (`using hot_trivially_relocatable = void;` in it), or move itself
// (`static void hot_move(T* to, T* from) noexcept`, which leaves no object at `from`).
//
// With STRATA_HOT_CHECK defined to 1, misuse is told in a line that names the type: a guide that
// was copied by bytes, a domain that goes before its objects, and a use of a reference after its
// operation has ended, or of the object after its end. An object then takes whole pages, and the
// end of an operation microseconds. 2 does so with the first 1,024 objects and 20,000 operations of
// a domain. Where NDEBUG is not defined the default is 1, and 2 if the compiler optimises.
#ifndef STRATA_HOT_PTR_H_
#define STRATA_HOT_PTR_H_

#if __cplusplus < 202002L
#error "strata/hot_ptr.h needs C++20: compile with -std=c++20"
#else

#include <strata/hot.h>
#include <strata/hot_type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace strata {

template <class T>
class hot_ptr;
template <class T>
class hot_atomic_ptr;

// The three heaps, and the thread that moves objects between them. Not movable; outlives what was
// made in it.
class hot_domain {
 public:
  struct options {
    bool thread = true;         // false: nothing happens but in collect_now()
    uint32_t period_ms = 1000;  // between two looks at the guides, at least
    double target = 0.01;       // share of the used bytes that may be cold ones
    double cpu_share = 0.01;    // of a core, for the thread
    uint64_t bytes_per_second = uint64_t{256} << 20;  // of moves
    strata_hot_reclaim reclaim = STRATA_HOT_RECLAIM_PAGEOUT;
  };

  hot_domain() : hot_domain(options{}) {}
  // Throws std::bad_alloc where there can be no domain; errno says why (ENOMEM, ENOTSUP).
  explicit hot_domain(const options& o) {
    strata_hot_options c{};
    c.size = sizeof c;
    c.without_thread = o.thread ? 0 : 1;
    c.check = STRATA_HOT_CHECK;
    c.period_ms = o.period_ms;
    c.reclaim = o.reclaim;
    c.target = o.target;
    c.cpu_share = o.cpu_share;
    c.bytes_per_second = o.bytes_per_second;
    domain_ = strata_hot_domain_create(&c);
    if (domain_ == nullptr) fail();
  }
  hot_domain(const hot_domain&) = delete;
  hot_domain& operator=(const hot_domain&) = delete;
  ~hot_domain() { strata_hot_domain_destroy(domain_); }

  // T: an object, args for its constructor. T[]: one argument, how many; all value-initialised.
  // Throws std::bad_alloc, and what a constructor throws.
  template <class T, class... Args>
    requires(!std::is_array_v<T> && hot_detail::Movable<T> && !hot_detail::kWithAllocator<Args...>)
  hot_ptr<T> make(Args&&... args) {
    void* block = take(sizeof(T), alignof(T), hot_detail::TypeOf<T>());
    if (block == nullptr) fail();
    return build<T>(block, [&] { ::new (block) T(std::forward<Args>(args)...); });
  }
  template <class T>
    requires(std::is_unbounded_array_v<T> && hot_detail::Movable<std::remove_extent_t<T>>)
  hot_ptr<T> make(size_t length) {
    hot_ptr<T> made = try_make<T>(length);
    if (!made) fail();
    return made;
  }
  // The same, empty where memory is short.
  template <class T, class... Args>
    requires(!std::is_array_v<T> && hot_detail::Movable<T>)
  hot_ptr<T> try_make(Args&&... args) {
    void* block = take(sizeof(T), alignof(T), hot_detail::TypeOf<T>());
    if (block == nullptr) return {};
    return build<T>(block, [&] { ::new (block) T(std::forward<Args>(args)...); });
  }
  template <class T>
    requires(std::is_unbounded_array_v<T> && hot_detail::Movable<std::remove_extent_t<T>>)
  hot_ptr<T> try_make(size_t length) {
    return array<T>(length,
                    [](auto* first, size_t n) { std::uninitialized_value_construct_n(first, n); });
  }
  // And with elements that hold nothing yet; in the heap of `beside`, if it is given: of the array
  // that this one will replace, got in an operation that still runs.
  template <class T>
    requires(std::is_unbounded_array_v<T> && hot_detail::Movable<std::remove_extent_t<T>>)
  hot_ptr<T> try_make_for_overwrite(size_t length,
                                    const std::remove_extent_t<T>* beside = nullptr) {
    constexpr size_t head = hot_detail::kHeadBytes<std::remove_extent_t<T>>;
    return array<T>(
        length, [](auto* first, size_t n) { std::uninitialized_default_construct_n(first, n); },
        beside == nullptr ? nullptr : reinterpret_cast<const char*>(beside) - head);
  }
  // Allocator-extended construction: T is built with the allocator as std::uses_allocator says.
  template <class T, class Allocator, class... Args>
    requires(!std::is_array_v<T> && hot_detail::Movable<T>)
  hot_ptr<T> make(std::allocator_arg_t, const Allocator& allocator, Args&&... args) {
    return make_using<T>(allocator, std::forward<Args>(args)...);
  }
  template <class T, class Allocator, class... Args>
    requires(!std::is_array_v<T> && hot_detail::Movable<T>)
  hot_ptr<T> make_using(const Allocator& allocator, Args&&... args) {
    void* block = take(sizeof(T), alignof(T), hot_detail::TypeOf<T>());
    if (block == nullptr) fail();
    return build<T>(block, [&] {
      std::uninitialized_construct_using_allocator(static_cast<T*>(block), allocator,
                                                   std::forward<Args>(args)...);
    });
  }

  // The object is destroyed when all operations that run now have ended, by another thread maybe.
  template <class T>
  void retire(hot_ptr<T>&& owner) {
    if (void* object = owner.release()) strata_hot_retire(domain_, object);
  }

  void collect_now() { strata_hot_collect(domain_); }
  void set_target(double share) { strata_hot_set_target(domain_, share); }
  strata_hot_stats_t stats() const {
    strata_hot_stats_t s{};
    s.size = sizeof s;
    strata_hot_stats(domain_, &s);
    return s;
  }
  strata_hot_domain* handle() const { return domain_; }

 private:
  [[noreturn]] static void fail() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    __builtin_abort();
#endif
  }
  void* take(size_t size, size_t alignment, const strata_hot_type* type,
             const void* beside = nullptr) {
    return strata_hot_allocate_beside(domain_, size, alignment, type, beside);
  }
  template <class T, class Construct>
  hot_ptr<T> array(size_t length, Construct construct, const void* beside = nullptr) {
    using E = std::remove_extent_t<T>;
    constexpr size_t head = hot_detail::kHeadBytes<E>;
    if (length > (SIZE_MAX / 4 - head) / sizeof(E)) return {};
    void* block = take(head + length * sizeof(E), head > alignof(E) ? head : alignof(E),
                       hot_detail::TypeOf<T>(), beside);
    if (block == nullptr) return {};
    return build<T>(block, [&] {
      ::new (block) hot_detail::ArrayHead{length};
      construct(hot_detail::Elements<E>(block), length);
    });
  }
  template <class T, class Construct>
  static hot_ptr<T> build(void* block, Construct construct) {
    struct Undo {
      void* block;
      ~Undo() {
        if (block != nullptr) strata_hot_free(block);
      }
    } undo{block};
    construct();
    undo.block = nullptr;
    return hot_ptr<T>(block);
  }

  strata_hot_domain* domain_;
};

// An operation: what it gets stays where it is until it ends. On the stack of one thread; it may
// stand in another. Short ones: while it runs, nothing that it uses moves.
class hot_scope {
 public:
  explicit hot_scope(hot_domain& domain) { strata_hot_enter(domain.handle(), &scope_); }
  hot_scope(const hot_scope&) = delete;
  hot_scope& operator=(const hot_scope&) = delete;
  ~hot_scope() { strata_hot_leave(&scope_); }

  strata_hot_scope* handle() { return &scope_; }

 private:
  strata_hot_scope scope_;
};

// The one owner of a T (or of a T[]); destroys it. Empty when made, and after a move from it. Used
// as a std::unique_ptr is, but for get().
template <class T>
class hot_ptr {
  using Kind = hot_detail::Kind<T>;

 public:
  using element_type = typename Kind::Element;

  constexpr hot_ptr() noexcept = default;
  constexpr hot_ptr(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  hot_ptr(hot_ptr&& other) noexcept { strata_hot_move(&guide_, &other.guide_); }
  hot_ptr& operator=(hot_ptr&& other) noexcept {
    if (this != &other) {
      reset();
      strata_hot_move(&guide_, &other.guide_);
    }
    return *this;
  }
  hot_ptr(const hot_ptr&) = delete;
  hot_ptr& operator=(const hot_ptr&) = delete;
  ~hot_ptr() { reset(); }

  // The object, or null; it stays there until the operation ends.
  element_type* get(hot_scope& op) const noexcept {
    return at(strata_hot_get(op.handle(), guide()));
  }
  // Where it lies now, without using it: to measure, not to follow.
  const element_type* peek() const noexcept { return at(strata_hot_peek(&guide_)); }

  explicit operator bool() const noexcept { return strata_hot_peek(&guide_) != nullptr; }
  friend bool operator==(const hot_ptr& p, std::nullptr_t) noexcept { return !p; }

  // How many elements, in an operation.
  size_t size(hot_scope& op) const noexcept
    requires std::is_array_v<T>
  {
    void* block = strata_hot_get(op.handle(), guide());
    return block == nullptr ? 0 : Kind::Length(block);
  }

  // Destroys the object: nobody may use it any more.
  void reset() noexcept {
    if (void* object = release()) {
      if constexpr (!std::is_trivially_destructible_v<element_type>) Kind::Destroy(object, 0);
      strata_hot_free(object);
    }
  }
  void swap(hot_ptr& other) noexcept {
    hot_ptr third(std::move(other));
    other = std::move(*this);
    *this = std::move(third);
  }
  friend void swap(hot_ptr& a, hot_ptr& b) noexcept { a.swap(b); }

 private:
  friend class hot_domain;
  friend class hot_atomic_ptr<T>;

  explicit hot_ptr(void* object) { strata_hot_own(&guide_, object); }
  // Nobody's from now on, at the start of its block.
  void* release() noexcept {
    return strata_hot_peek(&guide_) == nullptr ? nullptr : strata_hot_disown(&guide_);
  }
  strata_hot_guide* guide() const { return const_cast<strata_hot_guide*>(&guide_); }
  static element_type* at(void* block) {
    if constexpr (std::is_array_v<T>)
      return block == nullptr ? nullptr : hot_detail::Elements<element_type>(block);
    else
      return static_cast<T*>(block);
  }

  strata_hot_guide guide_{0};
};

// A hot_ptr that threads change while others read it. What is replaced is retired: whoever got it
// in an operation uses it until that ends. Reading never waits, but for an object whose type moves
// itself; two that change the same one may wait for each other for a moment.
template <class T>
class hot_atomic_ptr {
  using Owner = hot_ptr<T>;

 public:
  using element_type = typename Owner::element_type;

  constexpr hot_atomic_ptr() noexcept = default;
  explicit hot_atomic_ptr(hot_ptr<T>&& first) noexcept : owner_(std::move(first)) {}
  hot_atomic_ptr(const hot_atomic_ptr&) = delete;
  hot_atomic_ptr& operator=(const hot_atomic_ptr&) = delete;

  element_type* load(hot_scope& op) const noexcept { return owner_.get(op); }
  const element_type* peek() const noexcept { return owner_.peek(); }
  explicit operator bool() const noexcept { return static_cast<bool>(owner_); }

  // What is here becomes `desired` if it is `expected`, which this operation got, or null. Then
  // `desired` is empty; otherwise nothing happened.
  bool compare_exchange(hot_scope& op, element_type* expected, hot_ptr<T>& desired) noexcept {
    void* object = desired.release();
    if (strata_hot_exchange(op.handle(), &owner_.guide_, block(expected), object) != 0) return true;
    strata_hot_own(&desired.guide_, object);
    return false;
  }
  void store(hot_scope& op, hot_ptr<T> desired) noexcept {
    void* object = desired.release();
    while (strata_hot_exchange(op.handle(), &owner_.guide_,
                               strata_hot_get(op.handle(), &owner_.guide_), object) == 0) {
    }
  }
  // The size of a T[] that load() returned.
  static size_t size(const element_type* elements)
    requires std::is_array_v<T>
  {
    return elements == nullptr ? 0 : hot_detail::Kind<T>::Length(block(elements));
  }

 private:
  static void* block(const element_type* p) {
    if (p == nullptr) return nullptr;
    char* const bytes = reinterpret_cast<char*>(const_cast<std::remove_const_t<element_type>*>(p));
    if constexpr (std::is_array_v<T>)
      return bytes - hot_detail::kHeadBytes<element_type>;
    else
      return bytes;
  }

  hot_ptr<T> owner_;
};

}  // namespace strata

#endif  // C++20
#endif  // STRATA_HOT_PTR_H_
