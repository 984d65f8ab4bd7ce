/* Scopes: what a thread allocates with malloc, new and their kin between here and there is laid
 * together and counted, may have a cap, and may go in one stroke. C++: strata::scope, below.
 *
 * A scope counts the bytes of its live blocks, and of those of the scopes made inside of it. A
 * block stays its scope's wherever and whenever it is freed: by free, delete or realloc, on any
 * thread, inside or outside of the scope. Threads are in no scope when they start; several may be
 * in one.
 *
 * Outside of scopes nothing costs more. Inside, a thread takes a lock only where several use the
 * scope's blocks.
 *
 * Misuse (a scope that is gone, or ended while this thread is in it) writes one line to stderr and
 * ends the program, or with STRATA_ON_ERROR=ignore does nothing. */
#ifndef STRATA_SCOPE_H_
#define STRATA_SCOPE_H_

#include <stddef.h>

#ifdef __cplusplus
#include <cstddef>
#include <exception>

extern "C" {
#endif

typedef struct strata_scope strata_scope;

/* Inside of the scope that the calling thread is in, if any. Null with ENOMEM; or with EINVAL when
 * another thread has ended that one. The thread is not in the new one yet. */
strata_scope* strata_scope_create(void);
/* The calling thread goes into the scope; null: into none. Returns the one it was in. */
strata_scope* strata_scope_enter(strata_scope* scope);
/* The one that the calling thread is in. */
strata_scope* strata_scope_current(void);

/* The scope ends; its blocks stay until they are freed, and count for the scope outside. */
void strata_scope_close(strata_scope* scope);
/* The scope ends, and its blocks with it. Those of scopes inside of it stay. What libraries keep
 * for later must not be among them: start threads, call dlopen and first use thread_local objects
 * with destructors outside, after strata_scope_enter(NULL). */
void strata_scope_destroy(strata_scope* scope);

/* Bytes in live blocks, with 8 bytes and the rounding to 16 for each. */
size_t strata_scope_live(const strata_scope* scope);

/* Called when `wanted` more bytes would exceed the cap, outside of all scopes and without a lock.
 * Returns the new cap; one that is still too low, or 0, which leaves the cap as it is, makes the
 * allocation fail with ENOMEM. It may throw where C++ called new, and the thread is in its scope
 * again; out of malloc and its kin, which throw nothing, that is std::terminate. After a longjmp
 * out of it the thread is in none. */
typedef size_t (*strata_scope_cap_function)(void* context, size_t live, size_t wanted, size_t cap);
/* 0 bytes: no cap. A null function: the cap stands. Before others allocate in the scope. */
void strata_scope_set_cap(strata_scope* scope, size_t bytes, strata_scope_cap_function reached,
                          void* context);

/* A hint: so many bytes are about to be allocated in the scope, and should lie together. */
void strata_scope_expect(strata_scope* scope, size_t bytes);
/* A hint: what is allocated in the scope from now on will stay for long: a table that is loaded
 * once, a cache. It is laid on hugepages beside what else likely stays, apart from what comes and
 * goes, so that the hugepages of the latter can come free. */
void strata_scope_lasts(strata_scope* scope);

#ifdef __cplusplus
} /* extern "C" */

namespace strata {

// A scope that the thread is in as long as the object lives. Objects nest as blocks do: the last
// one made is the first to go. Never throws: without memory for it there is no scope, which the
// object's truth value says, and the thread stays where it was.
class scope {
 public:
  // At the end, what is left goes as well: unless an exception ends it, for that lies in the scope,
  // as what it holds may. What nobody frees stays then; catch inside of the scope to have it go.
  struct bulk_t {};
  static constexpr bulk_t bulk{};

  scope() noexcept : scope(false) {}
  explicit scope(bulk_t) noexcept : scope(true) {}
  ~scope() {
    if (handle_ == nullptr) return;
    strata_scope_enter(outer_);
    const bool unwinding = std::uncaught_exceptions() > exceptions_;
    bulk_ && !unwinding ? strata_scope_destroy(handle_) : strata_scope_close(handle_);
  }
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  explicit operator bool() const { return handle_ != nullptr; }
  std::size_t live() const { return handle_ == nullptr ? 0 : strata_scope_live(handle_); }
  void set_cap(std::size_t bytes, strata_scope_cap_function reached = nullptr,
               void* context = nullptr) {
    if (handle_ != nullptr) strata_scope_set_cap(handle_, bytes, reached, context);
  }
  void expect(std::size_t bytes) {
    if (handle_ != nullptr) strata_scope_expect(handle_, bytes);
  }
  void lasts() {
    if (handle_ != nullptr) strata_scope_lasts(handle_);
  }
  strata_scope* get() const { return handle_; }

  // Another thread's stay in a scope; or with null, a stretch outside of any.
  class visit {
   public:
    explicit visit(const scope& s) : before_(strata_scope_enter(s.get())) {}
    explicit visit(std::nullptr_t) : before_(strata_scope_enter(nullptr)) {}
    ~visit() { strata_scope_enter(before_); }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

   private:
    strata_scope* before_;
  };

 private:
  explicit scope(bool all_goes) noexcept : handle_(strata_scope_create()), bulk_(all_goes) {
    if (handle_ != nullptr) outer_ = strata_scope_enter(handle_);
  }

  strata_scope* handle_;
  strata_scope* outer_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
  bool bulk_;
};

}  // namespace strata
#endif

#endif /* STRATA_SCOPE_H_ */
