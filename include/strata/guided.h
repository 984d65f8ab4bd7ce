// What code compiled by strata-cxx calls: the plugin (compiler/) turns uses of the fields marked
// [[clang::annotate("strata::guided")]] into these. Over strata/hot.h; docs/compiler.md explains.
// Never included by hand: strata-cxx does it.
#ifndef STRATA_GUIDED_H_
#define STRATA_GUIDED_H_

#include <strata/hot.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace strata::guided {

// The operation of this thread; those that begin within one are part of it.
struct Operation {
  strata_hot_scope scope;
  unsigned depth;
};
inline constinit thread_local Operation t_operation{};

[[noreturn, gnu::cold, gnu::noinline]] inline void Outside() {
  static constexpr char kLine[] = "strata: a guided pointer was used outside of an operation\n";
  [[maybe_unused]] const ssize_t written = write(2, kLine, sizeof kLine - 1);
  __builtin_abort();
}
inline strata_hot_scope* Scope() {
  if (__builtin_expect(t_operation.depth == 0, 0)) Outside();
  return &t_operation.scope;
}
inline strata_hot_domain* Domain() {
  strata_hot_domain* domain = strata_hot_domain_default();
  if (domain == nullptr) {
    static constexpr char kLine[] = "strata: no domain for guided pointers\n";
    [[maybe_unused]] const ssize_t written = write(2, kLine, sizeof kLine - 1);
    __builtin_abort();
  }
  return domain;
}
// Its guides are found by what they own, so one type serves all.
inline constexpr strata_hot_type kType = {"", strata_hot_move_guides, nullptr};

}  // namespace strata::guided

// `new T` of what guided pointers point to.
struct strata_guided_heap {
  static void* operator new(size_t size) {
    const size_t alignment = size % 16 == 0 ? 16 : 8;  // an object's size is a multiple of its own
    void* p =
        strata_hot_allocate(strata::guided::Domain(), size, alignment, &strata::guided::kType);
    if (p == nullptr) {
#if defined(__cpp_exceptions)
      throw std::bad_alloc();
#else
      __builtin_abort();
#endif
    }
    return memset(p, 0, size);  // so that no word looks like a guide
  }
};

extern "C" {
[[gnu::used]] inline void strata_guided_enter() {
  auto& op = strata::guided::t_operation;
  if (op.depth++ == 0) strata_hot_enter(strata::guided::Domain(), &op.scope);
}
[[gnu::used]] inline void strata_guided_leave() {
  auto& op = strata::guided::t_operation;
  if (--op.depth == 0) strata_hot_leave(&op.scope);
}
[[gnu::used]] inline void* strata_guided_load(void* field) {
  return strata_hot_get(strata::guided::Scope(), static_cast<strata_hot_guide*>(field));
}
// The program may go on with `object`, which a collector must not move before this operation ends:
// it is noted as used, through a guide that owns nothing, before it gets an owner.
[[gnu::used]] inline void strata_guided_store(void* field, void* object) {
  if (object != nullptr) {
    strata_hot_guide use{reinterpret_cast<uintptr_t>(object)};
    strata_hot_get(strata::guided::Scope(), &use);
  }
  strata_hot_own(static_cast<strata_hot_guide*>(field), object);
}
[[gnu::used]] inline void strata_guided_delete(void* p) {
  const size_t bytes = p == nullptr ? 0 : strata_hot_size(p);
  if (bytes == 0) return ::operator delete(p);
  auto* words = static_cast<strata_hot_guide*>(p);
  for (size_t i = 0; i < bytes / sizeof *words; ++i) strata_hot_own(words + i, nullptr);
  strata_hot_free(p);
}
}

#endif  // STRATA_GUIDED_H_
